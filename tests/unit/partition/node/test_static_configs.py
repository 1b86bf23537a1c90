import pytest

from highwater.model.broker_config import BROKER_CONFIGS
from highwater.partition.config import PartitionConfig
from highwater.partition.node.static_configs import static_configs


def test_settings_have_kafka_s_names() -> None:
    config = PartitionConfig(
        group_initial_rebalance_delay_ms=0,
        group_min_session_timeout_ms=10,
        group_max_session_timeout_ms=20,
        group_max_size=3,
        group_consumer_max_size=4,
        group_consumer_assignors=("range", "uniform"),
        group_consumer_migration_policy="disabled",
        group_consumer_session_timeout_ms=46_000,
        group_consumer_heartbeat_interval_ms=5_001,
        group_consumer_assignment_interval_ms=0,
        offset_metadata_max_bytes=4,
        offsets_retention_minutes=5,
        offsets_retention_check_interval_ms=6,
        producer_id_expiration_ms=7,
        retention_check_interval_ms=700,
        log_flush_interval_ms=8,
        log_cleaner_enable=False,
        log_cleaner_io_bytes_per_s=9,
        transaction_max_timeout_ms=10,
        transaction_abort_check_interval_ms=11,
        transactional_id_expiration_ms=12,
        transactional_id_expiration_check_interval_ms=13,
    )
    assert static_configs(config) == {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "10",
        "group.max.session.timeout.ms": "20",
        "group.max.size": "3",
        "group.consumer.max.size": "4",
        "group.consumer.assignors": "range,uniform",
        "group.consumer.migration.policy": "disabled",
        "group.consumer.session.timeout.ms": "46000",
        "group.consumer.heartbeat.interval.ms": "5001",
        "group.consumer.assignment.interval.ms": "0",
        "offset.metadata.max.bytes": "4",
        "offsets.retention.minutes": "5",
        "offsets.retention.check.interval.ms": "6",
        "producer.id.expiration.ms": "7",
        "log.retention.check.interval.ms": "700",
        "log.flush.interval.ms": "8",
        "log.cleaner.enable": "false",
        "log.cleaner.io.max.bytes.per.second": "9.0",
        "transaction.max.timeout.ms": "10",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "11",
        "transactional.id.expiration.ms": "12",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "13",
    }


def test_the_table_s_defaults_are_ours() -> None:
    """A node does not register settings with default values."""
    assert static_configs(PartitionConfig()) == {}


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("group.min.session.timeout.ms", "6000"),
        ("group.max.session.timeout.ms", "1800000"),
        ("group.max.size", "2147483647"),
        ("offsets.retention.minutes", "10080"),
        ("offset.metadata.max.bytes", "4096"),
        ("producer.id.expiration.ms", "86400000"),
        ("transaction.max.timeout.ms", "900000"),
        ("transactional.id.expiration.ms", "604800000"),
    ],
)
def test_defaults_are_kafka_s(name: str, default: str) -> None:
    assert BROKER_CONFIGS[name].default == default
    assert name not in static_configs(PartitionConfig())
