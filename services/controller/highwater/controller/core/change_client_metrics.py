"""AlterConfigs of client metrics subscriptions (KIP-714).

Checks are those of `ClientMetricsConfigs` in Kafka; the number of subscriptions and the lengths of
names and values have limits. A regular expression must be one of Python's, which differ from Java's
in rare elements (Unicode classes): nothing matches clients yet, and what is stored must stay usable.
"""

import re
import warnings
from collections.abc import Mapping
from typing import Final

from highwater.controller.core.outcome import Refusal
from highwater.kafka.error_codes import ErrorCode
from highwater.model.client_metrics import (
    CLIENT_METRICS_CONFIGS,
    INTERVAL_MS,
    INTERVAL_MS_MAX,
    INTERVAL_MS_MIN,
    MATCH,
    MATCH_PROPERTIES,
)
from highwater.model.config_type import ConfigType
from highwater.model.topic_config import number_of

SUBSCRIPTIONS_MAX: Final = 1_000
"""Subscriptions of one instance: every member has them in memory, and a client would be compared
with each."""

NAME_CHARS_MAX: Final = 1_024

VALUE_CHARS_MAX: Final = 10_000
"""Characters of a value: some two hundred names of metrics."""

MATCH_CHARS_MAX: Final = 1_000
"""Characters of `match`. To compile them takes a millisecond, 0.4 s if they are made for that."""


def name_error(name: str) -> Refusal | None:
    """Why a subscription cannot have this name; None if it can."""
    if not name:
        return _invalid_request("Subscription name can't be empty")
    if len(name) > NAME_CHARS_MAX:
        why = f"The name of a subscription has at most {NAME_CHARS_MAX} characters."
        return _invalid_request(why)
    return None


def client_metrics_error(before: Mapping[str, str], wanted: Mapping[str, str]) -> Refusal | None:
    """Why a subscription with the configs `before` cannot be given those `wanted`, or None.

    Values that stay as they are are not checked again.
    """
    for name, value in wanted.items():
        config = CLIENT_METRICS_CONFIGS.get(name)
        if config is None:
            return _invalid_request(f"Unknown client metrics configuration: {name}")
        if before.get(name) == value:
            continue
        if len(value) > (MATCH_CHARS_MAX if name == MATCH else VALUE_CHARS_MAX):
            return _invalid_config(f"The value of {name} is too long.")
        if config.type is ConfigType.LIST:
            refusal = _list_error(name, value)
        else:
            assert name == INTERVAL_MS
            refusal = _interval_error(value)
        if refusal is not None:
            return refusal
    return None


def _interval_error(value: str) -> Refusal | None:
    try:
        interval_ms = number_of(ConfigType.INT, value.strip())
    except ValueError:
        why = f"Invalid value {value} for configuration {INTERVAL_MS}: Not a number of type INT"
        return _invalid_config(why)
    if INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
        return None
    return _invalid_request(
        f"Invalid value {interval_ms} for {INTERVAL_MS}, interval must be between "
        f"{INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} (1 hour)"
    )


def _list_error(name: str, value: str) -> Refusal | None:
    text = value.strip()
    items = [item.strip() for item in text.split(",")] if text else []
    if len(set(items)) != len(items):
        return _invalid_config(f"Configuration '{name}' values must not be duplicated.")
    if "" in items:
        return _invalid_config(f"Configuration '{name}' values must not be empty.")
    if name != MATCH:
        return None
    bad = next((item for item in items if not _is_pattern(item)), None)
    return None if bad is None else _invalid_config(f"Illegal client matching pattern: {bad}")


def _is_pattern(item: str) -> bool:
    """True for a known property and a regular expression, with "=" between them."""
    name, equals, expression = item.partition("=")
    if not equals or name.strip() not in MATCH_PROPERTIES:
        return False
    with warnings.catch_warnings(action="ignore"):  # Of what later Pythons may read otherwise.
        try:
            re.compile(expression.strip())
        except (re.error, OverflowError, RecursionError):
            return False
    return True


def _invalid_request(message: str) -> Refusal:
    return Refusal(code=ErrorCode.INVALID_REQUEST, message=message)


def _invalid_config(message: str) -> Refusal:
    return Refusal(code=ErrorCode.INVALID_CONFIG, message=message)
