"""A node's settings under Kafka's names, which it registers for DescribeConfigs."""

from typing import Final

from highwater.model.broker_config import BROKER_CONFIGS
from highwater.partition.config import PartitionConfig

DOUBLE_MAX: Final = "1.7976931348623157E308"
"""Java's largest int or long: how Kafka writes "no limit"."""
NEVER: Final = 2**63 - 1


def static_configs(config: PartitionConfig) -> dict[str, str]:
    """{broker config: value} of the settings that are not at their defaults.

    All of them are in `highwater.model.broker_config`, which has the defaults.
    """
    told = {name: str(value) for name, value in _settings(config).items()}
    return {name: value for name, value in told.items() if value != BROKER_CONFIGS[name].default}


def _settings(config: PartitionConfig) -> dict[str, object]:
    values: dict[str, object] = {
        "group.consumer.assignment.interval.ms": config.group_consumer_assignment_interval_ms,
        "group.consumer.assignors": ",".join(config.group_consumer_assignors),
        "group.consumer.heartbeat.interval.ms": config.group_consumer_heartbeat_interval_ms,
        "group.consumer.max.assignment.interval.ms": (
            config.group_consumer_max_assignment_interval_ms
        ),
        "group.consumer.max.heartbeat.interval.ms": config.group_consumer_max_heartbeat_interval_ms,
        "group.consumer.max.session.timeout.ms": config.group_consumer_max_session_timeout_ms,
        "group.consumer.max.size": config.group_consumer_max_size,
        "group.consumer.migration.policy": config.group_consumer_migration_policy,
        "group.consumer.min.assignment.interval.ms": (
            config.group_consumer_min_assignment_interval_ms
        ),
        "group.consumer.min.heartbeat.interval.ms": config.group_consumer_min_heartbeat_interval_ms,
        "group.consumer.min.session.timeout.ms": config.group_consumer_min_session_timeout_ms,
        "group.consumer.session.timeout.ms": config.group_consumer_session_timeout_ms,
        "group.initial.rebalance.delay.ms": config.group_initial_rebalance_delay_ms,
        "group.max.session.timeout.ms": config.group_max_session_timeout_ms,
        "group.max.size": config.group_max_size,
        "group.min.session.timeout.ms": config.group_min_session_timeout_ms,
        "log.cleaner.backoff.ms": config.log_cleaner_backoff_ms,
        "log.cleaner.dedupe.buffer.size": config.log_cleaner_dedupe_buffer_bytes,
        "log.cleaner.enable": str(config.log_cleaner_enable).lower(),
        "log.cleaner.io.max.bytes.per.second": (
            float(config.log_cleaner_io_bytes_per_s) or DOUBLE_MAX
        ),
        "log.flush.offset.checkpoint.interval.ms": config.checkpoint_interval_ms,
        "log.retention.check.interval.ms": config.retention_check_interval_ms,
        "offset.metadata.max.bytes": config.offset_metadata_max_bytes,
        "offsets.retention.check.interval.ms": config.offsets_retention_check_interval_ms,
        "offsets.retention.minutes": config.offsets_retention_minutes,
        "producer.id.expiration.ms": config.producer_id_expiration_ms,
        "replica.high.watermark.checkpoint.interval.ms": (
            config.high_watermark_checkpoint_interval_ms
        ),
        "replica.lag.time.max.ms": config.replica_lag_time_max_ms,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": (
            config.transaction_abort_check_interval_ms
        ),
        "transaction.max.timeout.ms": config.transaction_max_timeout_ms,
        "transaction.remove.expired.transaction.cleanup.interval.ms": (
            config.transactional_id_expiration_check_interval_ms
        ),
        "transactional.id.expiration.ms": config.transactional_id_expiration_ms,
    }
    if config.replica_selector_class:
        values["replica.selector.class"] = config.replica_selector_class
    if config.log_flush_interval_ms != NEVER:
        values["log.flush.interval.ms"] = config.log_flush_interval_ms
    return values
