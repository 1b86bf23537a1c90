"""Configs as DescribeConfigs and CreateTopics tell them: value, origin and all it stands before.

A value's synonyms are every place that could have given it, the strongest first; the first one is
where it comes from (KIP-226).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from highwater.model.broker_config import BROKER_CONFIGS, TOPIC_CONFIG_SYNONYMS, BrokerConfig
from highwater.model.cluster import ClusterImage, TopicState
from highwater.model.config_type import ConfigSource, ConfigType
from highwater.model.ids import NodeId
from highwater.model.topic_config import from_broker_config, is_valid
from highwater.model.topic_config_table import TOPIC_CONFIGS, TopicConfigEntry


class ConfigSynonym(NamedTuple):
    """One place that gives a value."""

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
    """All configs of a topic by name; those that it does not set come from the brokers."""
    return [_topic_entry(image, topic, entry) for entry in TOPIC_CONFIGS.values()]


def broker_entries(
    image: ClusterImage, node_id: NodeId, static: Mapping[str, str]
) -> list[ConfigEntry]:
    """All configs of a node by name; `static` is what it and its gateway were started with."""
    return [
        _broker_entry(config, image, image.node_configs.get(node_id, {}), static)
        for config in BROKER_CONFIGS.values()
    ]


def default_broker_entries(image: ClusterImage) -> list[ConfigEntry]:
    """What is set for all brokers at once (resource name ""); Kafka shows no more than that."""
    entries: list[ConfigEntry] = []
    for name, value in sorted(image.cluster_configs.items()):
        config = BROKER_CONFIGS.get(name)
        synonym = ConfigSynonym(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER)
        entries.append(
            ConfigEntry(
                name=name,
                value=value,
                type=ConfigType.STRING if config is None else config.type,
                source=synonym.source,
                read_only=False,
                sensitive=False,
                documentation="" if config is None else config.documentation,
                synonyms=(synonym,),
            )
        )
    return entries


def topic_config_type(name: str) -> ConfigType:
    """The type of a topic config, UNKNOWN if there is no such config."""
    entry = TOPIC_CONFIGS.get(name)
    return ConfigType.UNKNOWN if entry is None else entry.type


def _topic_entry(image: ClusterImage, topic: TopicState, entry: TopicConfigEntry) -> ConfigEntry:
    name = entry.name
    broker_names = TOPIC_CONFIG_SYNONYMS.get(name, ())
    given = [
        *_given(topic.configs, [name], ConfigSource.DYNAMIC_TOPIC),
        *_given(image.cluster_configs, broker_names, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        *_given(_static_of(image, topic), broker_names, ConfigSource.STATIC_BROKER),
        *_given(_DEFAULTS, broker_names, ConfigSource.DEFAULT),
    ]
    # What is stored and not valid any more has no effect (`topic_config.effective`).
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


def _static_of(image: ClusterImage, topic: TopicState) -> Mapping[str, str]:
    """Settings of a node that has the topic; nodes of one cluster should be set alike."""
    for node_id in topic.partitions[0].replicas:
        node = image.nodes.get(node_id)
        if node is not None:
            return node.static_configs
    return {}


def _in_topic_units(synonym: ConfigSynonym) -> str | None:
    """The value for a topic, whose times are all in milliseconds."""
    if synonym.source is ConfigSource.DYNAMIC_TOPIC or synonym.value is None:
        return synonym.value
    return from_broker_config(synonym.name, synonym.value)


def _broker_entry(
    config: BrokerConfig,
    image: ClusterImage,
    of_node: Mapping[str, str],
    static: Mapping[str, str],
) -> ConfigEntry:
    names = [config.name]
    synonyms = [
        *_given(of_node, names, ConfigSource.DYNAMIC_BROKER),
        *_given(image.cluster_configs, names, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        *_given(static, names, ConfigSource.STATIC_BROKER),
        *_given(_DEFAULTS, names, ConfigSource.DEFAULT),
    ]
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


_DEFAULTS: Final = {
    name: config.default for name, config in BROKER_CONFIGS.items() if config.default is not None
}
