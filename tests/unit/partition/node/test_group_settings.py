from highwater.model.group_config import Bounds
from highwater.partition.config import PartitionConfig
from highwater.partition.groups.core.config import GroupConfig, MigrationPolicy
from highwater.partition.node.group_settings import group_config


def test_defaults_are_the_coordinator_s_own() -> None:
    assert group_config(PartitionConfig()) == GroupConfig()


def test_settings_reach_the_coordinator() -> None:
    settings = PartitionConfig(
        group_initial_rebalance_delay_ms=1,
        group_min_session_timeout_ms=2,
        group_max_session_timeout_ms=3,
        group_max_size=4,
        group_consumer_session_timeout_ms=46_000,
        group_consumer_min_session_timeout_ms=30_000,
        group_consumer_heartbeat_interval_ms=6_000,
        group_consumer_min_heartbeat_interval_ms=5_500,
        group_consumer_max_heartbeat_interval_ms=20_000,
        group_consumer_assignment_interval_ms=500,
        group_consumer_min_assignment_interval_ms=400,
        group_consumer_max_assignment_interval_ms=600,
        group_consumer_max_size=8,
        group_consumer_assignors=("range",),
        group_consumer_migration_policy="upgrade",
        offset_metadata_max_bytes=5,
        offsets_retention_minutes=6,
        offsets_retention_check_interval_ms=7,
    )
    assert group_config(settings) == GroupConfig(
        initial_rebalance_delay_ms=1,
        session_timeout_ms_min=2,
        session_timeout_ms_max=3,
        group_size_max=4,
        consumer_bounds={
            "consumer.heartbeat.interval.ms": Bounds(default=6_000, low=5_500, high=20_000),
            "consumer.session.timeout.ms": Bounds(default=46_000, low=30_000, high=60_000),
            "consumer.assignment.interval.ms": Bounds(default=500, low=400, high=600),
        },
        consumer_group_size_max=8,
        consumer_assignors=("range",),
        migration_policy=MigrationPolicy.UPGRADE,
        offset_metadata_bytes_max=5,
        offsets_retention_ms=360_000,
        offsets_retention_check_ms=7,
    )
