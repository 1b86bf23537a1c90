"""Configs as DescribeConfigs and CreateTopics show them: value, source and synonyms (KIP-226).

A value's synonyms are all sources that set it, the strongest first; the first one is in effect.
Stored dynamic configs that have no effect are left out.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import dropwhile
from typing import Final, NamedTuple

from highwater.model.broker_config import (
    BROKER_CONFIGS,
    TOPIC_CONFIG_SYNONYMS,
    broker_config_names,
    broker_config_of,
)
from highwater.model.broker_config_table import BrokerConfig
from highwater.model.client_metrics import CLIENT_METRICS_CONFIGS, ClientMetricsKey
from highwater.model.cluster import ClusterImage, TopicState
from highwater.model.config_type import ConfigSource, ConfigType
from highwater.model.connection_configs import listener_config_of
from highwater.model.dynamic_config import held
from highwater.model.group_config_table import GROUP_CONFIGS, GroupConfigKey
from highwater.model.ids import NO_NODE, NodeId
from highwater.model.message_bounds import message_bytes_bound
from highwater.model.topic_config import from_broker_config, is_valid, list_changed
from highwater.model.topic_config_table import TOPIC_CONFIGS, TopicConfigEntry


class ConfigSynonym(NamedTuple):
    """One source of a value."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One config of a resource."""

    name: str
    value: str | None
    type: ConfigType
    source: ConfigSource
    read_only: bool
    sensitive: bool
    documentation: str
    synonyms: tuple[ConfigSynonym, ...]


def topic_entries(image: ClusterImage, topic: TopicState) -> list[ConfigEntry]:
    """All configs of a topic by name; configs that the topic does not set come from a broker.

    Here that is a node that has the topic; in Kafka, the broker that answers. If the instance bounds the
    bytes of messages below what is set, its bound is shown, as of a broker config for all brokers.
    """
    places = _places(image, *_node_of(image, topic))
    bound = message_bytes_bound(image.instances, topic)
    return [
        _bounded(entry, bound) if entry.name == _MESSAGE_BYTES and bound is not None else entry
        for entry in (_topic_entry(topic, places, config) for config in TOPIC_CONFIGS.values())
    ]


def broker_entries(
    image: ClusterImage, node_id: NodeId, static: Mapping[str, str]
) -> list[ConfigEntry]:
    """All configs of a node by name; `static` has the settings of it and its gateway.

    Those of listeners are there if they are set.
    """
    places = _places(image, node_id, static)
    found = {name for _, values in places for name in values if listener_config_of(name)}
    of_listeners = [config for name in sorted(found) if (config := broker_config_of(name))]
    return [_broker_entry(config, places) for config in (*BROKER_CONFIGS.values(), *of_listeners)]


def default_broker_entries(image: ClusterImage) -> list[ConfigEntry]:
    """The dynamic defaults of all brokers (resource name ""); like Kafka, without other sources."""
    entries: list[ConfigEntry] = []
    for name, value in sorted(held(image.cluster_configs, all_nodes=True).items()):
        config = broker_config_of(name)
        assert config is not None, f"{name} was not held"
        synonym = ConfigSynonym(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER)
        entries.append(
            ConfigEntry(
                name=name,
                value=value,
                type=config.type,
                source=synonym.source,
                read_only=False,
                sensitive=False,
                documentation=config.documentation,
                synonyms=(synonym,),
            )
        )
    return entries


def client_metrics_entries(image: ClusterImage, key: ClientMetricsKey) -> list[ConfigEntry]:
    """All configs of a client metrics subscription by name; one that does not exist has defaults."""
    given = image.client_metrics.get(key, {})
    entries: list[ConfigEntry] = []
    for name, config in CLIENT_METRICS_CONFIGS.items():
        value = given.get(name, config.default).strip()
        if config.type is ConfigType.LIST:
            value = list_changed(value)
        synonym = ConfigSynonym(name, value, ConfigSource.CLIENT_METRICS)
        entries.append(
            ConfigEntry(
                name=name,
                value=value,
                type=config.type,
                source=ConfigSource.CLIENT_METRICS if name in given else ConfigSource.DEFAULT,
                read_only=False,
                sensitive=False,
                documentation=config.documentation,
                synonyms=(synonym,) if name in given else (),
            )
        )
    return entries


def group_entries(
    image: ClusterImage, key: GroupConfigKey, node_id: NodeId, static: Mapping[str, str]
) -> list[ConfigEntry]:
    """All configs of a group by name; the values of a node, with the settings `static`, hold for what
    the group does not set.
    """
    places = _places(image, node_id, static)
    given = {name: value.strip() for name, value in image.group_configs.get(key, {}).items()}
    entries: list[ConfigEntry] = []
    for name, config in GROUP_CONFIGS.items():
        of_node = [config.broker_config]
        synonyms = (
            *_given(given, [name], ConfigSource.GROUP),
            *(one for source, values in places for one in _given(values, of_node, source)),
        )
        entries.append(
            ConfigEntry(
                name=name,
                value=synonyms[0].value,
                type=ConfigType.INT,
                source=synonyms[0].source,
                read_only=False,
                sensitive=False,
                documentation=config.documentation,
                synonyms=synonyms,
            )
        )
    return entries


def logger_entries(levels: Mapping[str, str]) -> list[ConfigEntry]:
    """The levels of a broker's loggers as configs; as in Kafka without type and synonyms."""
    return [
        ConfigEntry(
            name=name,
            value=level,
            type=ConfigType.UNKNOWN,
            source=ConfigSource.DYNAMIC_BROKER_LOGGER,
            read_only=False,
            sensitive=False,
            documentation="The least severe level that this service writes to the log.",
            synonyms=(),
        )
        for name, level in sorted(levels.items())
    ]


def topic_config_type(name: str) -> ConfigType:
    """The type of a topic config, UNKNOWN if there is no such config."""
    entry = TOPIC_CONFIGS.get(name)
    return ConfigType.UNKNOWN if entry is None else entry.type


def broker_config_type(name: str) -> ConfigType:
    """The type of a broker config, UNKNOWN if there is no such config."""
    config = broker_config_of(name)
    return ConfigType.UNKNOWN if config is None else config.type


def _places(
    image: ClusterImage, node_id: NodeId, static: Mapping[str, str]
) -> Sequence[tuple[ConfigSource, Mapping[str, str]]]:
    """The sources of a node's configs, the strongest first."""
    of_node = held(image.node_configs.get(node_id, {}), all_nodes=False)
    return (
        (ConfigSource.DYNAMIC_BROKER, of_node),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER, held(image.cluster_configs, all_nodes=True)),
        (ConfigSource.STATIC_BROKER, static),
        (ConfigSource.DEFAULT, _DEFAULTS),
    )


def _topic_entry(
    topic: TopicState,
    places: Sequence[tuple[ConfigSource, Mapping[str, str]]],
    entry: TopicConfigEntry,
) -> ConfigEntry:
    name = entry.name
    broker_names = TOPIC_CONFIG_SYNONYMS.get(name, ())
    given = [
        *_given(topic.configs, [name], ConfigSource.DYNAMIC_TOPIC),
        *(one for source, values in places for one in _given(values, broker_names, source)),
    ]
    # Stored values that are no longer valid have no effect (`topic_config.effective`).
    valued = [(synonym, _in_topic_units(synonym)) for synonym in given]
    synonyms = [
        (one, value) for one, value in valued if value is not None and is_valid(name, value)
    ]
    first, value = synonyms[0] if synonyms else (None, entry.default)
    return ConfigEntry(
        name=name,
        value=value,
        type=entry.type,
        source=ConfigSource.DEFAULT if first is None else first.source,
        read_only=False,
        sensitive=False,
        documentation=entry.documentation,
        synonyms=tuple(synonym for synonym, _ in synonyms),
    )


def _bounded(entry: ConfigEntry, bound: int) -> ConfigEntry:
    """max.message.bytes under the bound of the instance."""
    if entry.value is None or int(entry.value) <= bound:
        return entry
    (name,) = TOPIC_CONFIG_SYNONYMS[_MESSAGE_BYTES]
    first = ConfigSynonym(name, str(bound), ConfigSource.DYNAMIC_DEFAULT_BROKER)
    return entry._replace(value=first.value, source=first.source, synonyms=(first, *entry.synonyms))


def _node_of(image: ClusterImage, topic: TopicState) -> tuple[NodeId, Mapping[str, str]]:
    """A node that has a replica of the topic, and the node's settings."""
    for node_id in topic.partitions[0].replicas:
        node = image.nodes.get(node_id)
        if node is not None:
            return node_id, node.static_configs
    return NO_NODE, {}


def _in_topic_units(synonym: ConfigSynonym) -> str | None:
    """The value in the unit of topic configs: their times are all in milliseconds."""
    if synonym.source is ConfigSource.DYNAMIC_TOPIC or synonym.value is None:
        return synonym.value
    return from_broker_config(synonym.name, synonym.value)


def _broker_entry(
    config: BrokerConfig, places: Sequence[tuple[ConfigSource, Mapping[str, str]]]
) -> ConfigEntry:
    names = broker_config_names(config.name)
    given = [one for source, values in places for one in _given(values, names, source)]
    # As in Kafka, skip sources that set only a fallback config of another name.
    synonyms = list(dropwhile(lambda one: one.name != config.name, given))
    first = synonyms[0] if synonyms else ConfigSynonym(config.name, None, ConfigSource.DEFAULT)
    return ConfigEntry(
        name=config.name,
        value=first.value,
        type=config.type,
        source=first.source,
        read_only=not config.dynamic,
        sensitive=config.type is ConfigType.PASSWORD,
        documentation=config.documentation,
        synonyms=tuple(synonyms),
    )


def _given(
    values: Mapping[str, str], names: Sequence[str], source: ConfigSource
) -> Iterable[ConfigSynonym]:
    return [ConfigSynonym(name, values[name], source) for name in names if name in values]


_MESSAGE_BYTES: Final = "max.message.bytes"

_DEFAULTS: Final = {
    name: config.default for name, config in BROKER_CONFIGS.items() if config.default is not None
}
