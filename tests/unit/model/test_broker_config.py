from highwater.model.broker_config import (
    BROKER_CONFIGS,
    CLUSTER_WIDE,
    RATES,
    TOPIC_CONFIG_SYNONYMS,
)
from highwater.model.config_type import ConfigType

READERS = {
    ConfigType.BOOLEAN: lambda value: {"true": True, "false": False}[value],
    ConfigType.INT: int,
    ConfigType.SHORT: int,
    ConfigType.LONG: int,
    ConfigType.DOUBLE: float,
    ConfigType.STRING: str,
    ConfigType.LIST: str,
}


def test_every_config_is_described_and_its_default_has_its_type():
    for name, config in BROKER_CONFIGS.items():
        assert config.name == name
        assert config.documentation.endswith("."), name
        if config.default is not None:
            READERS[config.type](config.default)


def test_names_are_in_order():
    assert list(BROKER_CONFIGS) == sorted(BROKER_CONFIGS)


def test_dynamic_configs_are_rates_and_the_defaults_of_topic_configs_that_are_acted_upon():
    synonyms = {name for names in TOPIC_CONFIG_SYNONYMS.values() for name in names}
    dynamic = {name for name, config in BROKER_CONFIGS.items() if config.dynamic}
    acted_upon = synonyms - {"compression.type"}
    assert dynamic == acted_upon | RATES
    assert dynamic >= CLUSTER_WIDE


def test_every_topic_config_has_a_default():
    for name, synonyms in TOPIC_CONFIG_SYNONYMS.items():
        assert any(BROKER_CONFIGS[one].default is not None for one in synonyms), name


def test_some_defaults_of_kafka():
    defaults = {name: config.default for name, config in BROKER_CONFIGS.items()}
    assert defaults["log.segment.bytes"] == str(1024**3)
    assert defaults["message.max.bytes"] == "1048588"
    assert defaults["log.retention.hours"] == "168"
    assert defaults["log.index.interval.bytes"] == "4096"
