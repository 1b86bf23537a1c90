"""Translates a node's settings into its group coordinator's configuration."""

from highwater.model.group_config import bounds_of
from highwater.partition.config import PartitionConfig
from highwater.partition.groups.core.config import GroupConfig, MigrationPolicy
from highwater.partition.node.static_configs import static_configs


def group_config(config: PartitionConfig) -> GroupConfig:
    """The settings that Kafka has as well; the coordinator's other limits keep their defaults."""
    return GroupConfig(
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        session_timeout_ms_min=config.group_min_session_timeout_ms,
        session_timeout_ms_max=config.group_max_session_timeout_ms,
        group_size_max=config.group_max_size,
        consumer_bounds=bounds_of(static_configs(config)),
        consumer_group_size_max=config.group_consumer_max_size,
        consumer_assignors=config.group_consumer_assignors,
        migration_policy=MigrationPolicy(config.group_consumer_migration_policy),
        offset_metadata_bytes_max=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_ms=config.offsets_retention_check_interval_ms,
    )
