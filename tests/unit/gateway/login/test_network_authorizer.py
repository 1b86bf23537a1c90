"""Addresses outside of a topic's lists may not write or read it; the rest is another's decision."""

import pytest

from highwater.gateway.login.acl_authorizer import AclAuthorizer
from highwater.gateway.login.network_authorizer import NetworkAuthorizer
from highwater.gateway.login.topic_networks import TopicLists, TopicNetworks
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import (
    ANONYMOUS,
    AllowAll,
    Requester,
    Resource,
    ResourceType,
)
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.networks import Networks

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
ORDERS = Resource(ResourceType.TOPIC, "orders")
INSIDE, OUTSIDE = "10.0.0.1", "127.0.0.1"


class DenyAll:
    allows_all = False

    def allows(self, *_asked):
        return False

    allows_any = allows


@pytest.fixture
def topics():
    return TopicNetworks()


def lists(topics, produce=None, consume=None, instance=DEFAULT_INSTANCE):
    topics.by_name[instance, "orders"] = TopicLists(produce, consume)


def who(host, instance=DEFAULT_INSTANCE):
    return Requester(ANONYMOUS, instance, host)


def test_it_says_what_the_inner_one_says_where_no_topic_has_a_list(topics):
    assert NetworkAuthorizer(AllowAll(), topics).allows_all
    refusing = NetworkAuthorizer(DenyAll(), topics)
    assert not refusing.allows_all
    assert not refusing.allows(who(INSIDE), READ, ORDERS)
    assert not refusing.allows_any(who(INSIDE), READ, ResourceType.TOPIC)


def test_each_list_is_about_its_operation(topics):
    authorizer = NetworkAuthorizer(AllowAll(), topics)
    lists(topics, produce=Networks((INSIDE,)))
    assert not authorizer.allows_all
    assert authorizer.allows(who(INSIDE), WRITE, ORDERS)
    assert not authorizer.allows(who(OUTSIDE), WRITE, ORDERS)
    assert authorizer.allows(who(OUTSIDE), READ, ORDERS)
    assert authorizer.allows(who(OUTSIDE), DESCRIBE, ORDERS)
    lists(topics, consume=Networks((INSIDE,)))
    assert authorizer.allows(who(INSIDE), READ, ORDERS)
    assert not authorizer.allows(who(OUTSIDE), READ, ORDERS)
    assert authorizer.allows(who(OUTSIDE), WRITE, ORDERS)


def test_other_resources_and_topics_have_no_list(topics):
    authorizer = NetworkAuthorizer(AllowAll(), topics)
    lists(topics, Networks(()), Networks(()))
    assert authorizer.allows(who(OUTSIDE), READ, Resource(ResourceType.GROUP, "orders"))
    assert authorizer.allows(who(OUTSIDE), READ, Resource(ResourceType.TOPIC, "others"))
    assert authorizer.allows(who(OUTSIDE, InstanceId("a")), READ, ORDERS)
    assert authorizer.allows_any(who(OUTSIDE), WRITE, ResourceType.TOPIC)


def test_an_allowed_address_still_needs_the_inner_one(topics):
    lists(topics, Networks((INSIDE,)), Networks((INSIDE,)))
    assert not NetworkAuthorizer(DenyAll(), topics).allows(who(INSIDE), WRITE, ORDERS)


def test_lists_of_addresses_hide_no_topic(topics):
    lists(topics, Networks(()), Networks(()))
    assert NetworkAuthorizer(AllowAll(), topics).topic_view(who(OUTSIDE)) is None
    viewed = NetworkAuthorizer(
        AclAuthorizer(frozenset, super_users=frozenset(), allow_if_no_acl=lambda _: False), topics
    ).topic_view(who(OUTSIDE))
    assert viewed is not None
    assert viewed.host == OUTSIDE
