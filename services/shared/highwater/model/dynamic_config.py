"""What IncrementalAlterConfigs on a broker, or on all of them, may set (KIP-226).

The dynamic broker configs are defaults of topic configs, and a value must be one that a topic could
have. Where Kafka would take names that it does not know, we refuse them.
"""

from collections.abc import Mapping
from typing import Final

from highwater.model.broker_config import BROKER_CONFIGS, CLUSTER_WIDE, TOPIC_CONFIG_SYNONYMS
from highwater.model.topic_config import InvalidTopicConfigError, from_broker_config, parse

_TOPIC_CONFIG_OF: Final[Mapping[str, str]] = {
    broker_name: topic_name
    for topic_name, broker_names in TOPIC_CONFIG_SYNONYMS.items()
    for broker_name in broker_names
}


def dynamic_name_error(name: str, *, all_nodes: bool) -> str | None:
    """Why the config cannot be set or taken away while brokers run, or None."""
    config = BROKER_CONFIGS.get(name)
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
    text = from_broker_config(name, value)
    if text is None:
        return f"Invalid value {value} for configuration {name}: Not a number"
    topic_name = _TOPIC_CONFIG_OF[name]
    try:
        parse(topic_name, text)
    except InvalidTopicConfigError as error:
        return str(error).replace(f"configuration {topic_name}:", f"configuration {name}:")
    return None
