"""Dynamic broker configs: which AlterConfigs and IncrementalAlterConfigs may set (KIP-226).

The default of a topic config may have the values of that topic config; other dynamic configs are
numbers with a limit, and one is a list of such numbers. Unknown names are refused, unlike in Kafka. Stored configs that would be
refused now have no effect (`held`).
"""

from collections.abc import Mapping
from typing import Final

from highwater.model.broker_config import (
    BROKER_CONFIGS,
    CLUSTER_WIDE,
    TOPIC_CONFIG_SYNONYMS,
    broker_config_of,
)
from highwater.model.broker_config_table import BrokerConfig
from highwater.model.cluster import ClusterImage
from highwater.model.connection_configs import PER_ADDRESS_OVERRIDES, overrides_of
from highwater.model.ids import NodeId
from highwater.model.topic_config import (
    InvalidTopicConfigError,
    from_broker_config,
    number_of,
    parse,
)

_TOPIC_CONFIG_OF: Final[Mapping[str, str]] = {
    broker_name: topic_name
    for topic_name, broker_names in TOPIC_CONFIG_SYNONYMS.items()
    for broker_name in broker_names
}


def dynamic_name_error(name: str, *, all_nodes: bool) -> str | None:
    """Why the config cannot be set while brokers run, or None."""
    config = broker_config_of(name)
    if config is None or not config.dynamic:
        return f"Cannot update these configs dynamically: {name}"
    if not all_nodes and name in CLUSTER_WIDE:
        return f"{name} holds for all brokers at once; set it on the default broker (no name)"
    return None


def dynamic_config_error(name: str, value: str, *, all_nodes: bool) -> str | None:
    """Why the config cannot have this value, or None. `all_nodes`: it is set for all brokers."""
    why = dynamic_name_error(name, all_nodes=all_nodes)
    if why is not None:
        return why
    topic_name = _TOPIC_CONFIG_OF.get(name)
    if name == PER_ADDRESS_OVERRIDES:
        return _overrides_error(value)
    if topic_name is None:
        config = broker_config_of(name)
        assert config is not None, name
        return _number_error(config, value.strip())
    text = from_broker_config(name, value)
    if text is None:
        return f"Invalid value {value} for configuration {name}: Not a number"
    try:
        parse(topic_name, text)
    except InvalidTopicConfigError as error:
        return str(error).replace(f"configuration {topic_name}:", f"configuration {name}:")
    return None


def held(configs: Mapping[str, str], *, all_nodes: bool) -> dict[str, str]:
    """The stored dynamic configs that have an effect.

    Former versions allowed some that are read-only now; Kafka ignores such configs, too
    (`DynamicBrokerConfig.fromPersistentProps`).
    """
    return {
        name: value
        for name, value in configs.items()
        if dynamic_config_error(name, value, all_nodes=all_nodes) is None
    }


def broker_values(
    image: ClusterImage, node_id: NodeId, static: Mapping[str, str]
) -> dict[str, str]:
    """The configs of a node by Kafka's names, without defaults: those set for it win over those set
    for all nodes, and these over its own settings (`static`).
    """
    return {
        **static,
        **held(image.cluster_configs, all_nodes=True),
        **held(image.node_configs.get(node_id, {}), all_nodes=False),
    }


def broker_number(name: str, values: Mapping[str, str]) -> int | float:
    """A number among `broker_values`, or its default."""
    config = BROKER_CONFIGS[name]
    text = values.get(name, config.default)
    assert text is not None, f"{name} has no default"
    return number_of(config.type, text)


def _overrides_error(text: str) -> str | None:
    try:
        overrides_of(text)
    except ValueError as error:
        return f"Invalid value {text} for configuration {PER_ADDRESS_OVERRIDES}: {error}"
    return None


def _number_error(config: BrokerConfig, text: str) -> str | None:
    try:
        number = number_of(config.type, text)
    except ValueError:
        why = f"Not a number of type {config.type.name}"
    else:
        if config.low is None or number >= config.low:
            return None
        why = f"Value must be at least {config.low}"
    return f"Invalid value {text} for configuration {config.name}: {why}"
