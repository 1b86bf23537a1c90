"""The group coordinator uses only the default instance's group metadata topic."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from highwater.model.cluster import ClusterImage
from highwater.model.ids import DEFAULT_INSTANCE, GROUP_METADATA_TOPIC, InstanceId
from highwater.partition.node.roles import CoordinatorRoles
from tests.support.controller_images import topic_state

GROUPS = replace(topic_state(GROUP_METADATA_TOPIC, [(1,)]), internal=True)


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


@pytest.mark.parametrize(
    ("topic", "heard"),
    [
        (GROUPS, True),
        (replace(GROUPS, internal=False), False),
        (replace(GROUPS, instance=InstanceId("team")), False),
        (replace(GROUPS, name="orders"), False),
    ],
)
def test_coordinator_of_each_topic(topic, heard):
    log, groups = SimpleNamespace(topic=None), Coordinator()
    roles = CoordinatorRoles(log, groups)
    roles.became_leader(topic, 3, 7)
    roles.resigned(topic, 3)
    assert groups.told == ([("leads", 3, 7), ("resigned", 3)] if heard else [])
    assert log.topic is (topic if heard else None)


def test_groups_follow_the_image():
    groups = Coordinator()
    roles = CoordinatorRoles(SimpleNamespace(topic=None), groups)
    roles.following(ClusterImage(revision=7, cluster_id="c"))
    assert groups.told == [("follows", 7)]


def test_groups_drop_offsets_of_their_instances_deleted_topics():
    groups = Coordinator()
    roles = CoordinatorRoles(SimpleNamespace(topic=None), groups)
    others = replace(topic_state("b", [(1,)]), instance=InstanceId("team"))
    roles.topics_deleted([topic_state("a", [(1,)]), others])
    roles.topics_deleted([others])
    assert groups.told == [("deleted", DEFAULT_INSTANCE, frozenset({"a"}))]
