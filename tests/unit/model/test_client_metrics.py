from highwater.model.client_metrics import CLIENT_METRICS_CONFIGS, INTERVAL_MS
from highwater.model.config_type import ConfigType


def test_configs_are_those_of_kafka_by_name():
    assert [(name, *config[:2]) for name, config in CLIENT_METRICS_CONFIGS.items()] == [
        ("interval.ms", ConfigType.INT, "300000"),
        ("match", ConfigType.LIST, ""),
        ("metrics", ConfigType.LIST, ""),
    ]
    assert CLIENT_METRICS_CONFIGS[INTERVAL_MS].documentation
