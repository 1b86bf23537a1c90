"""What IncrementalAlterConfigs on a broker, or on all of them, may set (KIP-226).

The dynamic broker configs are defaults of topic configs, and a value must be one that a topic could
have; or they are rates. Where Kafka would take names that it does not know, we refuse them.
"""

from collections.abc import Mapping
from typing import Final

from highwater.model.broker_config import (
    BROKER_CONFIGS,
    CLUSTER_WIDE,
    RATES,
    TOPIC_CONFIG_SYNONYMS,
)
from highwater.model.topic_config import InvalidTopicConfigError, from_broker_config, parse

RATE_MAX: Final = 2**63 - 1

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
    if name in RATES:
        return _rate_error(name, value.strip())
    text = from_broker_config(name, value)
    if text is None:
        return f"Invalid value {value} for configuration {name}: Not a number"
    topic_name = _TOPIC_CONFIG_OF[name]
    try:
        parse(topic_name, text)
    except InvalidTopicConfigError as error:
        return str(error).replace(f"configuration {topic_name}:", f"configuration {name}:")
    return None


def _rate_error(name: str, text: str) -> str | None:
    if not (text.isascii() and text.isdecimal() and int(text) <= RATE_MAX):
        return f"Invalid value {text} for configuration {name}: Not a number from 0 on"
    return None
