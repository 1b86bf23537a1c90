from __future__ import annotations

from dataclasses import replace

from highwater.model.acls import Permission
from highwater.model.authorization import USER, Principal, TopicView
from highwater.model.cluster import ClusterImage
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.partition.groups.consumer.assignors.types import SubscribedTopic
from highwater.partition.groups.consumer.topics import ImageTopics, metadata_hash, subscribed
from tests.support.acls import acl
from tests.support.controller_images import topic_state
from tests.unit.partition.groups.topics import FakeTopics, topic_id

TENANT = InstanceId("team")


def image(revision: int, *names: str) -> ClusterImage:
    topics = [topic_state(name, [(1,), (1,)]) for name in names]
    others = replace(topic_state("x", [(1,)]), instance=TENANT)
    return ClusterImage(
        revision=revision,
        cluster_id="c",
        topics={topic.topic_id: topic for topic in [*topics, others]},
        topic_ids={(t.instance, t.name): t.topic_id for t in [*topics, others]},
    )


def test_topics_of_an_instance() -> None:
    topics = ImageTopics()
    assert topics.by_name(DEFAULT_INSTANCE, "a") is None
    assert topics.follow(image(1, "a", "b"))
    found = topics.by_name(DEFAULT_INSTANCE, "a")
    assert found is not None
    assert (found.name, found.partitions, topics.revision) == ("a", 2, 1)
    assert topics.by_id(DEFAULT_INSTANCE, found.topic_id) is found
    assert topics.by_id(TENANT, found.topic_id) is None
    assert sorted(topics.names(DEFAULT_INSTANCE)) == ["a", "b"]
    assert list(topics.names(TENANT)) == ["x"]


def test_an_image_without_other_topics_changes_nothing() -> None:
    topics, first = ImageTopics(), image(1, "a")
    topics.follow(first)
    assert not topics.follow(replace(first, revision=2))
    assert topics.revision == 2
    assert topics.follow(image(3, "b"))
    assert topics.by_name(DEFAULT_INSTANCE, "a") is None


def test_only_topics_that_exist_are_subscribed() -> None:
    found = subscribed(FakeTopics(t=1), DEFAULT_INSTANCE, ["t", "u"])
    assert set(found) == {topic_id("t")}


def test_the_hash_tells_each_change() -> None:
    racks = (("r",),)
    one = SubscribedTopic(topic_id("a"), "a", 1, racks)
    others = [
        replace(one, topic_id=topic_id("b")),
        replace(one, name="b"),
        replace(one, partitions=2),
        replace(one, racks=(("r", "s"),)),
    ]
    hashes = {metadata_hash([each]) for each in [one, *others]} | {metadata_hash([one, others[0]])}
    assert len(hashes) == 6
    assert metadata_hash([]) == 0
    assert metadata_hash([one, others[1]]) == metadata_hash([others[1], one])


def test_what_a_client_may_describe_by_the_acls_of_now() -> None:
    topics, first = ImageTopics(), image(1, "a", "b", "c")
    alice = TopicView(Principal(USER, "alice"), "10.0.0.1", visible_without_acl=False)
    trusting = alice._replace(visible_without_acl=True)
    entries = frozenset({acl("a"), acl("b", permission=Permission.DENY)})
    topics.follow(first)
    assert topics.described_by(DEFAULT_INSTANCE, None) is None
    assert topics.follow(replace(first, revision=2, acls=entries))

    def seen(view: TopicView, instance: InstanceId = DEFAULT_INSTANCE) -> list[str]:
        may_describe = topics.described_by(instance, view)
        assert may_describe is not None
        return [name for name in "abc" if may_describe(name)]

    assert seen(alice) == ["a"], "READ implies DESCRIBE"
    assert seen(trusting) == ["a", "c"]
    assert seen(alice._replace(principal=Principal(USER, "bob"))) == []
    assert seen(alice, TENANT) == []
    assert topics.follow(replace(first, revision=3, acls=frozenset({acl("c")})))
    assert seen(alice) == ["c"]
