"""Configs of groups: their values with the brokers' defaults, and which values they may have.

Source: `GroupConfig` of Kafka 4.3 (`validate`, `evaluate`); the texts are Kafka's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from highwater.model.cluster import ClusterImage
from highwater.model.config_type import ConfigType
from highwater.model.group_config_table import (
    ASSIGNMENT_INTERVAL_MS,
    GROUP_CONFIGS,
    HEARTBEAT_INTERVAL_MS,
    SESSION_TIMEOUT_MS,
    GroupConfigEntry,
    GroupConfigKey,
)
from highwater.model.topic_config import number_of

_VALUE_CHARS_MAX: Final = 100
"""Characters of a value: numbers, and spaces around them."""


class Bounds(NamedTuple):
    """What a broker's settings say about one config of groups."""

    default: int
    low: int
    high: int


GroupBounds = Mapping[str, Bounds]
"""By the config's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupConfig:
    """What holds for one group of the consumer protocol (KIP-848)."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    """From one target assignment to the next (KIP-1263); 0 if none has to wait."""


def bounds_of(broker: Mapping[str, str]) -> GroupBounds:
    """The bounds of a broker with these configs, by Kafka's names; others have Kafka's defaults."""

    def value(name: str, default: int) -> int:
        return int(broker.get(name, default))

    return {
        entry.name: Bounds(
            value(entry.broker_config, entry.default),
            value(entry.low_config, entry.low),
            value(entry.high_config, entry.high),
        )
        for entry in GROUP_CONFIGS.values()
    }


def with_dynamic_configs(bounds: GroupBounds, dynamic: Mapping[str, str]) -> GroupBounds:
    """The bounds of a broker whose defaults were changed while it runs.

    Beyond the broker's own bounds the nearest one holds (Kafka 4.3: `clampDynamicConfigs` of
    `GroupCoordinatorConfig`).
    """
    changed = {
        entry.name: _number(dynamic[entry.broker_config])
        for entry in GROUP_CONFIGS.values()
        if entry.broker_config in dynamic
    }
    return {
        name: own._replace(default=min(max(changed.get(name, own.default), own.low), own.high))
        for name, own in bounds.items()
    }


def group_config(
    image: ClusterImage, key: GroupConfigKey, bounds: GroupBounds
) -> ConsumerGroupConfig:
    """The group's values, or the broker's.

    The group's were checked when they were set; of a broker with other bounds the nearest one holds.
    """
    given = image.group_configs.get(key, {})

    def value(name: str) -> int:
        default, low, high = bounds[name]
        return min(max(_number(given[name]), low), high) if name in given else default

    return ConsumerGroupConfig(
        session_timeout_ms=value(SESSION_TIMEOUT_MS),
        heartbeat_interval_ms=value(HEARTBEAT_INTERVAL_MS),
        assignment_interval_ms=value(ASSIGNMENT_INTERVAL_MS),
    )


def group_config_error(
    before: Mapping[str, str], after: Mapping[str, str], bounds: GroupBounds
) -> str | None:
    """Why a group may not have the configs `after` at a broker, or None.

    Values that it has already are not checked again, but against one another.
    """
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    for name, text in changed.items():
        entry = GROUP_CONFIGS.get(name)
        why = f"Unknown group config name: {name}" if entry is None else _value_error(entry, text)
        if why is not None:
            return why
    for entry in GROUP_CONFIGS.values():
        if entry.name not in changed:
            continue
        value = _number(changed[entry.name])
        if value < bounds[entry.name].low:
            return f"{entry.name} must be greater than or equal to {entry.low_config}"
        if value > bounds[entry.name].high:
            return f"{entry.name} must be less than or equal to {entry.high_config}"
    session_ms, heartbeat_ms = (
        _number(after[name]) if name in after else bounds[name].default
        for name in (SESSION_TIMEOUT_MS, HEARTBEAT_INTERVAL_MS)
    )
    if after and session_ms <= heartbeat_ms:
        return f"{SESSION_TIMEOUT_MS} must be greater than {HEARTBEAT_INTERVAL_MS}"
    return None


def _value_error(entry: GroupConfigEntry, text: str) -> str | None:
    if len(text) > _VALUE_CHARS_MAX:
        return f"The value of {entry.name} is too long."
    head = f"Invalid value {text} for configuration {entry.name}"
    try:
        value = _number(text)
    except ValueError:
        return f"{head}: Not a number of type INT"
    return None if value >= entry.least else f"{head}: Value must be at least {entry.least}"


def _number(text: str) -> int:
    value = number_of(ConfigType.INT, text.strip())
    assert isinstance(value, int)
    return value
