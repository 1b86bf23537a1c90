from __future__ import annotations

from dataclasses import replace

from highwater.model.cluster import ClusterImage
from highwater.model.group_config import ConsumerGroupConfig, bounds_of
from highwater.model.group_config_table import GroupConfigKey
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId, NodeId
from highwater.partition.groups.consumer.group_configs import ImageGroupConfigs
from highwater.partition.groups.key import GroupKey


def test_groups_without_configs_have_the_nodes_settings() -> None:
    configs = ImageGroupConfigs(bounds_of({"group.consumer.session.timeout.ms": "46000"}))
    key = GroupKey(DEFAULT_INSTANCE, "g")
    settings = ConsumerGroupConfig(
        session_timeout_ms=46_000, heartbeat_interval_ms=5_000, assignment_interval_ms=1_000
    )
    assert configs.of(key) == settings
    given = {"consumer.heartbeat.interval.ms": "6000"}
    groups = {GroupConfigKey(DEFAULT_INSTANCE, "g"): given}
    configs.follow(ClusterImage(revision=1, cluster_id="c", group_configs=groups))
    own = ConsumerGroupConfig(
        session_timeout_ms=46_000, heartbeat_interval_ms=6_000, assignment_interval_ms=1_000
    )
    assert configs.of(key) == own
    assert configs.of(GroupKey(DEFAULT_INSTANCE, "h")) == settings
    assert configs.of(GroupKey(InstanceId("team"), "g")) == settings
    configs.follow(ClusterImage(revision=2, cluster_id="c"))
    assert configs.of(key) == settings


def test_a_nodes_settings_may_change_while_it_runs() -> None:
    name = "group.consumer.assignment.interval.ms"
    configs = ImageGroupConfigs(bounds_of({name: "500"}), node_id=lambda: 2)
    image = ClusterImage(revision=0, cluster_id="c")
    for cluster, node, expected in (
        ({}, {}, 500),
        ({name: "2000"}, {}, 2_000),
        ({name: "2000"}, {NodeId(1): {name: "3000"}}, 2_000),
        ({name: "2000"}, {NodeId(2): {name: "3000"}}, 3_000),
        ({name: "16000"}, {}, 15_000),
        ({}, {}, 500),
    ):
        image = replace(
            image, revision=image.revision + 1, cluster_configs=cluster, node_configs=node
        )
        configs.follow(image)
        assert configs.of(GroupKey(DEFAULT_INSTANCE, "g")).assignment_interval_ms == expected
