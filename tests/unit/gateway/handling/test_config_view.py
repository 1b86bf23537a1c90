from dataclasses import replace

from highwater.gateway.handling.config_view import (
    broker_config_type,
    broker_entries,
    client_metrics_entries,
    default_broker_entries,
    group_entries,
    logger_entries,
    topic_config_type,
    topic_entries,
)
from highwater.model.broker_config import BROKER_CONFIGS
from highwater.model.client_metrics import CLIENT_METRICS_CONFIGS, ClientMetricsKey
from highwater.model.config_type import ConfigSource, ConfigType
from highwater.model.dynamic_config import broker_values
from highwater.model.group_config_table import GROUP_CONFIGS, GroupConfigKey
from highwater.model.ids import DEFAULT_INSTANCE, NodeId
from highwater.model.instances import InstanceState
from highwater.model.topic_config import effective, parse
from highwater.model.topic_config_table import TOPIC_CONFIGS
from tests.unit.gateway.handlers.images import (
    image_of,
    node,
    topic,
)


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
    # Kafka, too, shows the broker's own unit here.
    assert retention.synonyms == (("log.retention.hours", "168", ConfigSource.DEFAULT),)
    assert all(one.documentation for one in entries)


def test_a_topics_own_config_wins():
    state = topic("orders", configs={"retention.ms": "1000"})
    image = image_of(state, cluster_configs={"log.retention.ms": "2"})
    entries = topic_entries(image, state)
    retention = entry(entries, "retention.ms")
    assert (retention.value, retention.source) == ("1000", ConfigSource.DYNAMIC_TOPIC)
    assert retention.synonyms == (
        ("retention.ms", "1000", ConfigSource.DYNAMIC_TOPIC),
        ("log.retention.ms", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    )


def test_an_instances_bound_for_messages_is_shown_if_it_is_smaller():
    bound = InstanceState(instance=DEFAULT_INSTANCE, message_bytes_max=2_000)
    state = topic("orders", configs={"max.message.bytes": "3000"})
    image = replace(image_of(state), instances={DEFAULT_INSTANCE: bound})
    shown = entry(topic_entries(image, state), "max.message.bytes")
    assert (shown.value, shown.source) == ("2000", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    assert shown.synonyms[:2] == (
        ("message.max.bytes", "2000", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("max.message.bytes", "3000", ConfigSource.DYNAMIC_TOPIC),
    )
    smaller = topic("orders", configs={"max.message.bytes": "1000"})
    shown = entry(topic_entries(image, smaller), "max.message.bytes")
    assert (shown.value, shown.source) == ("1000", ConfigSource.DYNAMIC_TOPIC)


def test_a_topic_has_all_configs_of_the_table():
    state = topic("orders")
    entries = topic_entries(image_of(state), state)
    assert [one.name for one in entries] == list(TOPIC_CONFIGS)
    for one in entries:
        config = TOPIC_CONFIGS[one.name]
        assert (one.value, one.type, one.documentation) == (
            config.default,
            config.type,
            config.documentation,
        )
    assert entry(entries, "record.validation").synonyms == ()


def test_invalid_stored_values_are_hidden():
    state = topic("orders", configs={"x.y": "z", "segment.bytes": "1", "preallocate": "true"})
    image = image_of(state, cluster_configs={"log.retention.ms": "x", "log.roll.hours": "1"})
    entries = topic_entries(image, state)
    assert [one.name for one in entries] == list(TOPIC_CONFIGS)
    segment = entry(entries, "segment.bytes")
    assert (segment.value, segment.source) == ("1073741824", ConfigSource.DEFAULT)
    assert entry(entries, "retention.ms").value == "604800000"
    assert entry(entries, "segment.ms").value == "604800000", "log.roll.hours is read-only now"
    assert entry(entries, "preallocate").source is ConfigSource.DYNAMIC_TOPIC


def test_described_values_are_the_effective_ones():
    state = topic("orders", configs={"retention.ms": "7", "segment.bytes": "nonsense"})
    node_configs = {"log.flush.interval.ms": "9"}
    image = image_of(
        state,
        nodes=[node(1, static_configs=node_configs)],
        cluster_configs={"log.segment.bytes": "2000000", "log.roll.ms": "2"},
        node_configs={NodeId(1): {"log.roll.ms": "3"}, NodeId(2): {"log.retention.bytes": "4"}},
    )
    holds = effective(state.configs, broker_values(image, NodeId(1), node_configs))
    for one in topic_entries(image, state):
        assert parse(one.name, one.value) == getattr(holds, one.name.replace(".", "_"))
    flush = entry(topic_entries(image, state), "flush.ms")
    assert (flush.value, flush.source) == ("9", ConfigSource.STATIC_BROKER)
    roll = entry(topic_entries(image, state), "segment.ms")
    assert (roll.value, roll.source) == ("3", ConfigSource.DYNAMIC_BROKER)
    assert [one.value for one in roll.synonyms] == ["3", "2", "168"]


def test_a_cluster_config_comes_next_in_the_topics_unit():
    state = topic("orders")
    nodes = [node(1, static_configs={"log.retention.minutes": "2"})]
    entries = topic_entries(image_of(state, nodes=nodes), state)
    assert entry(entries, "retention.ms").value == "120000"
    assert entry(entries, "cleanup.policy").value == "delete"
    unlimited = image_of(state, cluster_configs={"log.retention.ms": "-1"})
    assert entry(topic_entries(unlimited, state), "retention.ms").value == "-1"


def test_types_of_topic_configs():
    assert topic_config_type("cleanup.policy") is ConfigType.LIST
    assert topic_config_type("segment.bytes") is ConfigType.INT
    assert topic_config_type("no.such.config") is ConfigType.UNKNOWN


def test_types_of_broker_configs():
    assert broker_config_type("log.cleanup.policy") is ConfigType.LIST
    assert broker_config_type("no.such.config") is ConfigType.UNKNOWN


def test_a_fallback_config_comes_after_its_broker_config():
    """Alone it does not set that config, as in Kafka."""
    image = image_of(
        cluster_configs={"log.retention.ms": "5", "log.cleaner.backoff.ms": "-1"},
        node_configs={NodeId(2): {"min.insync.replicas": "3"}},
    )
    entries = broker_entries(image, NodeId(2), {"log.retention.hours": "24"})
    assert entry(entries, "log.retention.ms").synonyms == (
        ("log.retention.ms", "5", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.hours", "24", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    )
    assert [one.value for one in entry(entries, "log.retention.hours").synonyms] == ["24", "168"]
    assert entry(entries, "log.roll.ms").synonyms == ()
    assert entry(entries, "log.cleaner.backoff.ms").value == "15000", "what is stored is not valid"
    assert entry(entries, "min.insync.replicas").value == "1", "no node has its own"
    default_names = [one.name for one in default_broker_entries(image)]
    assert default_names == ["log.retention.ms"]


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


def test_configs_of_listeners_are_there_if_they_are_set():
    name = "listener.name.internal.max.connections"
    image = image_of(
        cluster_configs={name: "5", "max.connections": "7"}, node_configs={NodeId(2): {name: "6"}}
    )
    limit = entry(broker_entries(image, NodeId(2), {}), name)
    assert (limit.value, limit.type, limit.read_only) == ("6", ConfigType.INT, False)
    assert limit.synonyms == (
        (name, "6", ConfigSource.DYNAMIC_BROKER),
        (name, "5", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("max.connections", "7", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("max.connections", "2147483647", ConfigSource.DEFAULT),
    )
    assert [one.name for one in default_broker_entries(image)] == [name, "max.connections"]
    assert broker_config_type(name) is ConfigType.INT


def test_configs_of_all_brokers_are_those_that_are_set():
    assert default_broker_entries(image_of()) == []
    [one] = default_broker_entries(image_of(cluster_configs={"message.max.bytes": "5"}))
    assert (one.name, one.value, one.type) == ("message.max.bytes", "5", ConfigType.INT)
    assert one.source is ConfigSource.DYNAMIC_DEFAULT_BROKER


def test_client_metrics():
    key = ClientMetricsKey(DEFAULT_INSTANCE, "sub")
    image = image_of(client_metrics={key: {"metrics": " a , b", "interval.ms": "100 "}})
    entries = client_metrics_entries(image, key)
    assert [(one.name, one.value, one.source) for one in entries] == [
        ("interval.ms", "100", ConfigSource.CLIENT_METRICS),
        ("match", "", ConfigSource.DEFAULT),
        ("metrics", "a,b", ConfigSource.CLIENT_METRICS),
    ]
    unknown = client_metrics_entries(image, key._replace(name="none"))
    assert {one.source for one in unknown} == {ConfigSource.DEFAULT}
    assert [one.name for one in unknown] == list(CLIENT_METRICS_CONFIGS)


def test_groups():
    key = GroupConfigKey(DEFAULT_INSTANCE, "g")
    heartbeat, session, assignment = GROUP_CONFIGS
    image = image_of(group_configs={key: {session: "50000 ", "gone": "1"}})
    static = {f"group.{session}": "46000", f"group.{heartbeat}": "6000"}
    entries = group_entries(image, key, NodeId(1), static)
    assert [(one.name, one.value, one.source) for one in entries] == [
        (heartbeat, "6000", ConfigSource.STATIC_BROKER),
        (session, "50000", ConfigSource.GROUP),
        (assignment, "1000", ConfigSource.DEFAULT),
    ]
    assert [tuple(one) for one in entries[1].synonyms] == [
        (session, "50000", ConfigSource.GROUP),
        (f"group.{session}", "46000", ConfigSource.STATIC_BROKER),
        (f"group.{session}", "45000", ConfigSource.DEFAULT),
    ]
    unset = group_entries(image, key._replace(group_id="other"), NodeId(1), {})
    assert {one.source for one in unset} == {ConfigSource.DEFAULT}
    assert {one.type for one in unset} == {ConfigType.INT}


def test_groups_have_what_their_coordinator_has_been_given():
    *_, assignment = GROUP_CONFIGS
    name = f"group.{assignment}"
    image = image_of(cluster_configs={name: "3000"}, node_configs={NodeId(2): {name: "4000"}})
    key = GroupConfigKey(DEFAULT_INSTANCE, "g")
    for node_id, value, source in (
        (1, "3000", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (2, "4000", ConfigSource.DYNAMIC_BROKER),
    ):
        found = entry(group_entries(image, key, NodeId(node_id), {name: "2000"}), assignment)
        assert (found.value, found.source) == (value, source)
        assert found.synonyms[-2:] == (
            (name, "2000", ConfigSource.STATIC_BROKER),
            (name, "1000", ConfigSource.DEFAULT),
        )


def test_loggers_are_configs_without_type_and_synonyms():
    entries = logger_entries({"root": "INFO", "gateway": "TRACE"})
    assert [(one.name, one.value) for one in entries] == [("gateway", "TRACE"), ("root", "INFO")]
    assert {(one.source, one.type) for one in entries} == {
        (ConfigSource.DYNAMIC_BROKER_LOGGER, ConfigType.UNKNOWN)
    }
    assert not any(one.synonyms or one.read_only or one.sensitive for one in entries)
