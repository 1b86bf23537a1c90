"""The lists of topics follow the image."""

from dataclasses import replace

import pytest

from highwater.gateway.login.topic_networks import TopicNetworks
from highwater.model.cluster import ClusterDelta, TopicState
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId, TopicId
from tests.support.controller_images import image_with

ORDERS, OTHER = TopicId(b"o" * 16), TopicId(b"p" * 16)
KEY = (DEFAULT_INSTANCE, "orders")


def topic(topic_id=ORDERS, instance=DEFAULT_INSTANCE, name="orders", **configs):
    configs = {f"{kind}.allowed.networks": text for kind, text in configs.items()}
    return TopicState(
        topic_id=topic_id, instance=instance, name=name, partitions=(), configs=configs
    )


class World:
    def __init__(self):
        self.lists = TopicNetworks()
        self.image = image_with(1)

    def applied(self, *topics, removed=()):
        delta = ClusterDelta(
            revision=self.image.revision + 1, topics=topics, removed_topics=frozenset(removed)
        )
        self.image = self.image.apply(delta)
        return self.lists.follow(self.image, delta)

    def first(self, *topics):
        self.image = replace(self.image, topics={each.topic_id: each for each in topics})
        return self.lists.follow(self.image, None)


@pytest.fixture
def w():
    return World()


def test_topics_without_lists_are_not_kept(w):
    assert not w.first(topic(), topic(OTHER, name="p"))
    assert not w.applied(topic(produce=""))
    assert w.lists.by_name == {}


@pytest.mark.parametrize("known", [True, False], ids=["a delta", "a whole image"])
def test_lists_come_change_and_go(w, known):
    take = w.applied if known else w.first
    assert take(topic(produce="10.0.0.0/8"))
    produce, consume = w.lists.by_name[KEY]
    assert consume is None
    assert produce.holds("10.1.1.1")
    assert not produce.holds("11.1.1.1")
    assert not take(topic(produce="10.0.0.0/8")), "nothing is another one"
    assert take(topic(produce="10.0.0.0/8", consume="none"))
    assert not w.lists.by_name[KEY].consume.holds("10.1.1.1")
    assert take(topic())
    assert w.lists.by_name == {}


def test_topics_of_another_instance_are_others(w):
    tenant = InstanceId("a")
    w.applied(topic(produce="none"), topic(OTHER, tenant, consume="none"))
    assert w.lists.by_name[KEY].consume is None
    assert w.lists.by_name[tenant, "orders"].produce is None


def test_a_topic_made_anew_has_the_new_lists(w):
    w.applied(topic(produce="none"))
    assert w.applied(topic(OTHER, produce="10.0.0.0/8"), removed=[ORDERS])
    assert w.lists.by_name[KEY].produce.holds("10.0.0.1")
    assert w.applied(removed=[OTHER])
    assert w.lists.by_name == {}
    assert not w.applied(removed=[TopicId(b"q" * 16)])


def test_a_topic_that_a_new_whole_image_does_not_have_is_gone(w):
    w.first(topic(produce="none"))
    assert w.first(topic(OTHER, name="p"))
    assert w.lists.by_name == {}


def test_a_list_that_is_not_understood_allows_nobody(w):
    w.applied(topic(produce="10.0.0.0/8,what"))
    assert not w.lists.by_name[KEY].produce.holds("10.0.0.1")
