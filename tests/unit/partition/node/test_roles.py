"""Each coordinator uses only its own topic, and each pair is told of its own instances."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from highwater.model.cluster import ClusterImage
from highwater.model.coordinator_topics import (
    INSTANCE_GROUP_METADATA_TOPIC,
    INSTANCE_TRANSACTION_STATE_TOPIC,
)
from highwater.model.ids import (
    DEFAULT_INSTANCE,
    GROUP_METADATA_TOPIC,
    SYSTEM_INSTANCE,
    TRANSACTION_STATE_TOPIC,
    InstanceId,
)
from highwater.partition.node.roles import CoordinatorRoles
from tests.support.controller_images import topic_state

GROUPS = replace(topic_state(GROUP_METADATA_TOPIC, [(1,)]), internal=True)
TRANSACTIONS = replace(topic_state(TRANSACTION_STATE_TOPIC, [(1,)]), internal=True)
SHARED_GROUPS = replace(GROUPS, name=INSTANCE_GROUP_METADATA_TOPIC, instance=SYSTEM_INSTANCE)
SHARED_TRANSACTIONS = replace(
    TRANSACTIONS, name=INSTANCE_TRANSACTION_STATE_TOPIC, instance=SYSTEM_INSTANCE
)
TEAM = InstanceId("team")


class Coordinator:
    def __init__(self):
        self.told = []

    def become_leader(self, partition, leader_epoch):
        self.told.append(("leads", partition, leader_epoch))

    def resign(self, partition):
        self.told.append(("resigned", partition))

    def follow(self, image):
        self.told.append(("follows", image.revision))

    def topics_deleted(self, instance, topics):
        self.told.append(("deleted", instance, topics))


def pair():
    return SimpleNamespace(
        groups=Coordinator(),
        group_log=SimpleNamespace(topic=None),
        transactions=Coordinator(),
        state_log=SimpleNamespace(topic=None),
    )


class Node:
    def __init__(self):
        self.default, self.others = pair(), pair()
        self.asked_for_ids = 0
        self.marker_targets = {}
        self.roles = CoordinatorRoles(
            {DEFAULT_INSTANCE: self.default, SYSTEM_INSTANCE: self.others},
            self.needs_ids,
            self.marker_targets,
        )

    def needs_ids(self):
        self.asked_for_ids += 1


@pytest.mark.parametrize(
    ("topic", "whose", "who"),
    [
        (GROUPS, "default", "groups"),
        (TRANSACTIONS, "default", "transactions"),
        (SHARED_GROUPS, "others", "groups"),
        (SHARED_TRANSACTIONS, "others", "transactions"),
        (replace(GROUPS, internal=False), "", ""),
        (replace(TRANSACTIONS, internal=False), "", ""),
        (replace(SHARED_GROUPS, internal=False), "", ""),
        (replace(GROUPS, instance=TEAM), "", ""),
        (replace(TRANSACTIONS, instance=TEAM), "", ""),
        (replace(SHARED_GROUPS, instance=TEAM), "", ""),
        (replace(SHARED_GROUPS, instance=DEFAULT_INSTANCE), "", ""),
        (replace(GROUPS, instance=SYSTEM_INSTANCE), "", ""),
        (replace(GROUPS, name="orders"), "", ""),
    ],
)
def test_coordinator_of_each_topic(topic, whose, who):
    node = Node()
    node.roles.became_leader(topic, 3, 7)
    node.roles.resigned(topic, 3)
    told = [("leads", 3, 7), ("resigned", 3)]
    for name, each in (("default", node.default), ("others", node.others)):
        mine = who if whose == name else ""
        assert each.groups.told == (told if mine == "groups" else [])
        assert each.transactions.told == (told if mine == "transactions" else [])
        assert each.group_log.topic is (topic if mine == "groups" else None)
        assert each.state_log.topic is (topic if mine == "transactions" else None)
    assert node.asked_for_ids == (who == "transactions")
    targets = {topic.topic_id: getattr(node, whose).groups} if who == "groups" else {}
    assert node.marker_targets == targets


def test_groups_follow_the_image():
    node = Node()
    node.roles.following(ClusterImage(revision=7, cluster_id="c"))
    for each in (node.default, node.others):
        assert each.groups.told == [("follows", 7)]
        assert each.transactions.told == []


def test_groups_drop_offsets_of_their_instances_deleted_topics():
    node = Node()
    others = [replace(topic_state(name, [(1,)]), instance=TEAM) for name in "ab"]
    another = replace(topic_state("c", [(1,)]), instance=InstanceId("other"))
    node.roles.topics_deleted([topic_state("a", [(1,)]), *others, another])
    assert node.default.groups.told == [("deleted", DEFAULT_INSTANCE, frozenset({"a"}))]
    assert node.others.groups.told == [
        ("deleted", TEAM, frozenset({"a", "b"})),
        ("deleted", InstanceId("other"), frozenset({"c"})),
    ]
    node.roles.topics_deleted([])
    assert len(node.default.groups.told) == 1
    assert node.default.transactions.told == node.others.transactions.told == []
