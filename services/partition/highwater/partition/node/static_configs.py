"""A node's settings in Kafka's words, as it registers them for DescribeConfigs to tell."""

from typing import Final

from highwater.partition.config import PartitionConfig
from highwater.partition.groups.core.config import GroupConfig

DOUBLE_MAX: Final = "1.7976931348623157E308"
"""As Java writes it: no limit, for which Kafka has no 0."""


def static_configs(config: PartitionConfig, groups: GroupConfig) -> dict[str, str]:
    """{broker config: value}; all of them are in `highwater.model.broker_config`."""
    values = {
        "group.initial.rebalance.delay.ms": groups.initial_rebalance_delay_ms,
        "group.max.session.timeout.ms": groups.session_timeout_ms_max,
        "group.max.size": groups.group_size_max,
        "group.min.session.timeout.ms": groups.session_timeout_ms_min,
        "log.cleaner.backoff.ms": config.log_cleaner_backoff_ms,
        "log.cleaner.dedupe.buffer.size": config.log_cleaner_dedupe_buffer_bytes,
        "log.cleaner.enable": str(config.log_cleaner_enable).lower(),
        "log.cleaner.io.max.bytes.per.second": (
            float(config.log_cleaner_io_bytes_per_s) or DOUBLE_MAX
        ),
        "log.flush.interval.ms": config.log_flush_interval_ms,
        "log.flush.offset.checkpoint.interval.ms": config.checkpoint_interval_ms,
        "log.retention.check.interval.ms": config.retention_check_interval_ms,
        "offset.metadata.max.bytes": groups.offset_metadata_bytes_max,
        "offsets.retention.minutes": groups.offsets_retention_ms // 60_000,
        "producer.id.expiration.ms": config.producer_id_expiration_ms,
        "replica.high.watermark.checkpoint.interval.ms": (
            config.high_watermark_checkpoint_interval_ms
        ),
        "replica.lag.time.max.ms": config.replica_lag_time_max_ms,
    }
    return {name: str(value) for name, value in values.items()}
