"""Each coordinator uses only its own topic of the default instance."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from highwater.model.ids import (
    DEFAULT_INSTANCE,
    GROUP_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    InstanceId,
)
from highwater.partition.node.roles import CoordinatorRoles
from tests.support.controller_images import topic_state

GROUPS = replace(topic_state(GROUP_METADATA_TOPIC, [(1,)]), internal=True)
TRANSACTIONS = replace(topic_state(TRANSACTION_STATE_TOPIC, [(1,)]), internal=True)


class Coordinator:
    def __init__(self):
        self.told = []

    def become_leader(self, partition, leader_epoch):
        self.told.append(("leads", partition, leader_epoch))

    def resign(self, partition):
        self.told.append(("resigned", partition))

    def topics_deleted(self, instance, topics):
        self.told.append(("deleted", instance, topics))


class Node:
    def __init__(self):
        self.groups, self.transactions = Coordinator(), Coordinator()
        self.group_log, self.state_log = SimpleNamespace(topic=None), SimpleNamespace(topic=None)
        self.asked_for_ids = 0
        self.marker_targets = {}
        self.roles = CoordinatorRoles(
            self.group_log,
            self.groups,
            self.state_log,
            self.transactions,
            self.needs_ids,
            self.marker_targets,
        )

    def needs_ids(self):
        self.asked_for_ids += 1


@pytest.mark.parametrize(
    ("topic", "who"),
    [
        (GROUPS, "groups"),
        (TRANSACTIONS, "transactions"),
        (replace(GROUPS, internal=False), ""),
        (replace(TRANSACTIONS, internal=False), ""),
        (replace(GROUPS, instance=InstanceId("team")), ""),
        (replace(TRANSACTIONS, instance=InstanceId("team")), ""),
        (replace(GROUPS, name="orders"), ""),
    ],
)
def test_coordinator_of_each_topic(topic, who):
    node = Node()
    node.roles.became_leader(topic, 3, 7)
    node.roles.resigned(topic, 3)
    told = [("leads", 3, 7), ("resigned", 3)]
    assert node.groups.told == (told if who == "groups" else [])
    assert node.transactions.told == (told if who == "transactions" else [])
    assert node.group_log.topic is (topic if who == "groups" else None)
    assert node.state_log.topic is (topic if who == "transactions" else None)
    assert node.asked_for_ids == (who == "transactions")
    assert node.marker_targets == ({topic.topic_id: node.groups} if who == "groups" else {})


def test_groups_drop_offsets_of_their_instances_deleted_topics():
    node = Node()
    others = replace(topic_state("b", [(1,)]), instance=InstanceId("team"))
    node.roles.topics_deleted([topic_state("a", [(1,)]), others])
    node.roles.topics_deleted([others])
    assert node.groups.told == [("deleted", DEFAULT_INSTANCE, frozenset({"a"}))]
    assert node.transactions.told == []
