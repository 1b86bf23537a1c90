from highwater.model.broker_config import BROKER_CONFIGS
from highwater.partition.config import PartitionConfig
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.node.static_configs import static_configs


def test_settings_have_kafka_s_names() -> None:
    config = PartitionConfig(
        retention_check_interval_ms=700, log_flush_interval_ms=5, producer_id_expiration_ms=77
    )
    told = static_configs(config, GroupConfig(initial_rebalance_delay_ms=0))
    assert set(told) <= set(BROKER_CONFIGS)
    assert told["group.initial.rebalance.delay.ms"] == "0"
    assert told["log.retention.check.interval.ms"] == "700"
    assert told["log.flush.interval.ms"] == "5"
    assert told["producer.id.expiration.ms"] == "77"
    assert told["replica.high.watermark.checkpoint.interval.ms"] == "5000"


def test_the_table_s_defaults_are_ours() -> None:
    for name, value in static_configs(PartitionConfig(), GroupConfig()).items():
        assert BROKER_CONFIGS[name].default == value, name
