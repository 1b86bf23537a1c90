from highwater.gateway.handlers.config_view import (
    broker_entries,
    default_broker_entries,
    effective_topic_value,
    topic_config_type,
    topic_entries,
)
from highwater.model.broker_config import BROKER_CONFIGS
from highwater.model.config_type import ConfigSource, ConfigType
from highwater.model.ids import NodeId
from tests.unit.gateway.handlers.fakes import image_of, topic


def entry(entries, name):
    [found] = [one for one in entries if one.name == name]
    return found


def test_defaults_of_a_topic_come_from_the_brokers():
    entries = topic_entries(image_of(), topic("orders"))
    names = [one.name for one in entries]
    assert names == sorted(names)
    retention = entry(entries, "retention.ms")
    assert (retention.value, retention.type) == ("604800000", ConfigType.LONG)
    assert (retention.source, retention.read_only) == (ConfigSource.DEFAULT, False)
    # Kafka too tells the broker's own unit here.
    assert retention.synonyms == (("log.retention.hours", "168", ConfigSource.DEFAULT),)
    assert all(one.documentation for one in entries)


def test_what_is_set_on_a_topic_wins():
    state = topic("orders", configs={"retention.ms": "1000", "x.y": "z"})
    image = image_of(state, cluster_configs={"log.retention.minutes": "2"})
    entries = topic_entries(image, state)
    retention = entry(entries, "retention.ms")
    assert (retention.value, retention.source) == ("1000", ConfigSource.DYNAMIC_TOPIC)
    assert retention.synonyms == (
        ("retention.ms", "1000", ConfigSource.DYNAMIC_TOPIC),
        ("log.retention.minutes", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    )
    odd = entry(entries, "x.y")
    assert (odd.value, odd.type) == ("z", ConfigType.UNKNOWN)


def test_what_is_set_for_all_brokers_comes_next_in_the_topic_s_unit():
    state = topic("orders")
    image = image_of(state, cluster_configs={"log.retention.minutes": "2"})
    assert effective_topic_value(image, state, "retention.ms") == "120000"
    assert effective_topic_value(image, state, "cleanup.policy") == "delete"
    assert effective_topic_value(image, state, "no.such.config") is None
    unlimited = image_of(state, cluster_configs={"log.retention.hours": "-1"})
    assert effective_topic_value(unlimited, state, "retention.ms") == "-1"


def test_types_of_topic_configs():
    assert topic_config_type("cleanup.policy") is ConfigType.LIST
    assert topic_config_type("segment.bytes") is ConfigType.INT
    assert topic_config_type("no.such.config") is ConfigType.UNKNOWN


def test_configs_of_a_broker():
    image = image_of(
        cluster_configs={"message.max.bytes": "5"},
        node_configs={NodeId(2): {"message.max.bytes": "7"}},
    )
    of_two = broker_entries(image, NodeId(2), {"num.partitions": "4"})
    assert [one.name for one in of_two] == list(BROKER_CONFIGS)
    assert entry(of_two, "message.max.bytes").synonyms == (
        ("message.max.bytes", "7", ConfigSource.DYNAMIC_BROKER),
        ("message.max.bytes", "5", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("message.max.bytes", "1048588", ConfigSource.DEFAULT),
    )
    assert not entry(of_two, "message.max.bytes").read_only
    partitions = entry(of_two, "num.partitions")
    assert (partitions.value, partitions.source) == ("4", ConfigSource.STATIC_BROKER)
    assert partitions.read_only
    of_one = broker_entries(image, NodeId(1), {})
    assert entry(of_one, "message.max.bytes").value == "5"
    unset = entry(of_one, "log.retention.ms")
    assert (unset.value, unset.source, unset.synonyms) == (None, ConfigSource.DEFAULT, ())


def test_configs_of_all_brokers_are_those_that_are_set():
    assert default_broker_entries(image_of()) == []
    [one] = default_broker_entries(image_of(cluster_configs={"message.max.bytes": "5"}))
    assert (one.name, one.value, one.type) == ("message.max.bytes", "5", ConfigType.INT)
    assert one.source is ConfigSource.DYNAMIC_DEFAULT_BROKER
