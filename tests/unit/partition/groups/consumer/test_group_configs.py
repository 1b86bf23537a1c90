from __future__ import annotations

from highwater.model.cluster import ClusterImage
from highwater.model.group_config import ConsumerGroupConfig, bounds_of
from highwater.model.group_config_table import GroupConfigKey
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
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
