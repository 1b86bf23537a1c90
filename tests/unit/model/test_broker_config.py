from highwater.model.broker_config import (
    BROKER_CONFIG_SYNONYMS,
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


def test_dynamic_configs_are_those_of_kafka():
    """DynamicBrokerConfig.AllDynamicConfigs: only the first name of a topic default is dynamic."""
    defaults = {names[0] for names in TOPIC_CONFIG_SYNONYMS.values()}
    dynamic = {name for name, config in BROKER_CONFIGS.items() if config.dynamic}
    of_connections = {
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
    }
    of_parts = {
        "group.consumer.assignment.interval.ms",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "producer.id.expiration.ms",
    }
    assert dynamic == defaults | RATES | of_parts | of_connections
    assert dynamic >= CLUSTER_WIDE


def test_fallback_names():
    assert BROKER_CONFIG_SYNONYMS["log.retention.ms"] == (
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
    )
    assert BROKER_CONFIG_SYNONYMS["log.retention.hours"] == ("log.retention.hours",)
    assert "node.id" not in BROKER_CONFIG_SYNONYMS


def test_every_topic_config_has_a_default():
    for name, synonyms in TOPIC_CONFIG_SYNONYMS.items():
        assert any(BROKER_CONFIGS[one].default is not None for one in synonyms), name


def test_some_defaults_of_kafka():
    defaults = {name: config.default for name, config in BROKER_CONFIGS.items()}
    assert defaults["log.segment.bytes"] == str(1024**3)
    assert defaults["message.max.bytes"] == "1048588"
    assert defaults["log.retention.hours"] == "168"
    assert defaults["log.index.interval.bytes"] == "4096"
