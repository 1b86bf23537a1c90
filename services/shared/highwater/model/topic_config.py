"""Topic configs: validation, and the values in effect for a topic.

Values are sent as strings. `parse` reads one; `validate` checks a topic's whole set, as in
CreateTopics; `validate_change` checks changes; `effective` returns the typed configs that a
partition uses. `topic_config_table` has the configs themselves.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from highwater.model.broker_config import TOPIC_CONFIG_SYNONYMS
from highwater.model.config_type import ConfigType
from highwater.model.networks import networks_of_config
from highwater.model.topic_config_table import LONG_MAX, TOPIC_CONFIGS, TopicConfigEntry

INT_MAX: Final = 2**31 - 1
_TYPE_MAX: Final = {ConfigType.INT: INT_MAX, ConfigType.SHORT: 2**15 - 1}

_UNITS_MS: Final = {".hours": 3_600_000, ".minutes": 60_000}

Value = int | float | bool | str | tuple[str, ...]


class InvalidTopicConfigError(ValueError):
    """An invalid config; the message is sent to the client (INVALID_CONFIG, 40)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """A topic's configs in effect, typed; names are Kafka's with underscores for dots."""

    cleanup_policy: tuple[str, ...]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    consume_allowed_networks: tuple[str, ...]
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    leader_replication_throttled_replicas: tuple[str, ...]
    local_retention_bytes: int
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    produce_allowed_networks: tuple[str, ...]
    record_validation: str
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool

    @property
    def compacted(self) -> bool:
        """Whether the cleanup policy has `compact`."""
        return "compact" in self.cleanup_policy

    @property
    def log_append_time(self) -> bool:
        """Whether the broker stamps the records."""
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def deep_validation(self) -> bool:
        """Whether every record is checked: if configured, and on compacted topics for their keys."""
        return self.record_validation == "deep" or self.compacted


def parse(name: str, value: str) -> Value:
    """The typed value; InvalidTopicConfigError with Kafka's wording if it is not allowed."""
    entry = TOPIC_CONFIGS.get(name)
    if entry is None:
        raise InvalidTopicConfigError(f"Unknown topic config name: {name}")
    text = value.strip()
    match entry.type:
        case ConfigType.BOOLEAN:
            return _parse_boolean(entry, text)
        case ConfigType.INT | ConfigType.LONG | ConfigType.DOUBLE:
            return _parse_number(entry, text)
        case ConfigType.LIST:
            return _parse_list(entry, text)
        case _:
            return _parse_choice(entry, text)


def validate(configs: Mapping[str, str]) -> None:
    """Checks a topic's whole set of configs, each and together."""
    values = {name: parse(name, value) for name, value in configs.items()}
    low = values.get("min.compaction.lag.ms", 0)
    high = values.get("max.compaction.lag.ms", LONG_MAX)
    if isinstance(low, int) and isinstance(high, int) and low > high:
        raise InvalidTopicConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({low})"
            f" > max.compaction.lag.ms ({high})"
        )
    if values.get("remote.storage.enable"):
        raise InvalidTopicConfigError("Tiered Storage functionality is disabled in the broker.")


def validate_change(present: Mapping[str, str], changed: Mapping[str, str]) -> None:
    """Checks the new configs of a topic together with those that it keeps (`present`).

    Kept configs that are not valid any more are ignored, as the client has not set them now.
    """
    validate(changed)
    kept = {name: value for name, value in present.items() if is_valid(name, value)}
    validate({**kept, **changed})


def is_valid(name: str, value: str) -> bool:
    """Whether `parse` accepts the value."""
    try:
        parse(name, value)
    except InvalidTopicConfigError:
        return False
    return True


def effective(
    configs: Mapping[str, str], broker_configs: Mapping[str, str] | None = None
) -> TopicConfig:
    """The configs in effect for a topic that sets `configs`, given the brokers' dynamic configs.

    A stored value that is not valid any more counts as not set: the topic must stay usable.
    """
    values = {
        entry.name.replace(".", "_"): _effective_value(entry, configs, broker_configs or {})
        for entry in TOPIC_CONFIGS.values()
    }
    return TopicConfig(**values)  # type: ignore[arg-type]  # the table has the fields' types


class EffectiveConfigs:
    """`effective` for one topic after another: the last result is kept for its next partition.

    A node with 10 000 partitions asks as often, and each answer takes a tenth of a millisecond.
    """

    def __init__(self) -> None:
        self._configs: Mapping[str, str] | None = None
        self._broker_configs: Mapping[str, str] | None = None
        self._last: TopicConfig | None = None

    def of(self, configs: Mapping[str, str], broker_configs: Mapping[str, str]) -> TopicConfig:
        """As `effective`. Mappings that were given are never changed, so the same means equal."""
        last = self._last
        if (
            last is None
            or configs is not self._configs
            or broker_configs is not self._broker_configs
        ):
            last = self._last = effective(configs, broker_configs)
            self._configs, self._broker_configs = configs, broker_configs
        return last


def effective_value(
    name: str, configs: Mapping[str, str], broker_configs: Mapping[str, str] | None = None
) -> Value:
    """One config in effect for the topic; see `effective`."""
    return _effective_value(TOPIC_CONFIGS[name], configs, broker_configs or {})


def changed_list(
    name: str,
    configs: Mapping[str, str],
    broker_configs: Mapping[str, str],
    *,
    added: str = "",
    removed: str = "",
) -> str:
    """The value in effect of a LIST config, with items added and removed; not validated."""
    entry = TOPIC_CONFIGS[name]
    assert entry.type is ConfigType.LIST
    present = configs.get(name)
    if present is None or not is_valid(name, present):
        present = _default_text(entry, broker_configs)
    return list_changed(present, added=added, removed=removed)


def list_changed(present: str, *, added: str = "", removed: str = "") -> str:
    """A comma-separated list with items added and removed; not validated."""
    items = dict.fromkeys(_items(present) + _items(added))
    gone = _items(removed)
    return ",".join(item for item in items if item not in gone)


def _effective_value(
    entry: TopicConfigEntry, configs: Mapping[str, str], broker_configs: Mapping[str, str]
) -> Value:
    text = configs.get(entry.name)
    if text is not None:
        try:
            return parse(entry.name, text)
        except InvalidTopicConfigError:
            pass  # A value that is not valid any more counts as not set.
    return parse(entry.name, _default_text(entry, broker_configs))


def _default_text(entry: TopicConfigEntry, broker_configs: Mapping[str, str]) -> str:
    """The brokers' default for topics; the first synonym that is set and valid wins."""
    for name in TOPIC_CONFIG_SYNONYMS.get(entry.name, ()):
        if name in broker_configs:
            text = from_broker_config(name, broker_configs[name])
            if text is not None and is_valid(entry.name, text):
                return text
    return entry.default


def from_broker_config(name: str, value: str) -> str | None:
    """The value of broker config `name` in the topic config's unit: milliseconds for times.

    None if a time is not a number.
    """
    unit_ms = next((ms for suffix, ms in _UNITS_MS.items() if name.endswith(suffix)), None)
    if unit_ms is None:
        return value
    try:
        number = _integer(value.strip())
    except ValueError:
        return None
    return str(number * unit_ms if number > 0 else number)


def number_of(kind: ConfigType, text: str) -> int | float:
    """Reads a number as Java does; ValueError if the text is not a number of that type."""
    if kind is ConfigType.DOUBLE:
        real = float(text)
        if math.isnan(real) or "_" in text:  # NaN would pass every comparison with a limit.
            raise ValueError(text)
        return real
    number = _integer(text)
    type_max = _TYPE_MAX.get(kind, LONG_MAX)
    if not -type_max - 1 <= number <= type_max:
        raise ValueError(text)
    return number


def _parse_boolean(entry: TopicConfigEntry, text: str) -> bool:
    lowered = text.lower()
    if lowered not in {"true", "false"}:
        raise _invalid(entry, text, "Expected value to be either true or false")
    return lowered == "true"


def _parse_number(entry: TopicConfigEntry, text: str) -> int | float:
    try:
        number = number_of(entry.type, text)
    except ValueError:
        raise _invalid(entry, text, f"Not a number of type {entry.type.name}") from None
    if entry.also is not None and number == entry.also:
        return number
    if entry.also is not None and not _within(entry, number):
        raise _invalid(
            entry,
            text,
            f"Value must be between {entry.low} and {entry.high} or equal to {entry.also}",
        )
    if entry.low is not None and not number >= entry.low:
        raise _invalid(entry, text, f"Value must be at least {entry.low}")
    if entry.high is not None and not number <= entry.high:
        raise _invalid(entry, text, f"Value must be no more than {entry.high}")
    return number


def _integer(text: str) -> int:
    """Reads an integer as Java does: without the underscores and blanks that `int` accepts."""
    if not text.lstrip("+-").isdecimal() or not text.isascii():
        raise ValueError(text)
    return int(text)


def _within(entry: TopicConfigEntry, number: float) -> bool:
    assert entry.low is not None
    assert entry.high is not None
    return entry.low <= number <= entry.high


def _parse_list(entry: TopicConfigEntry, text: str) -> tuple[str, ...]:
    items = _items(text)
    if entry.choices:
        for item in items:
            if item not in entry.choices:
                raise _not_among(entry, item)
    if text and entry.pattern is not None and entry.pattern.fullmatch(text) is None:
        raise _invalid(
            entry,
            f"[{', '.join(items)}]",
            f"{entry.name} must be the literal '*' or a list of replicas in the following format:"
            " [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )
    if entry.networks:
        try:
            networks_of_config(text)
        except ValueError as error:
            raise _invalid(entry, text, str(error)) from None
    return items


def _parse_choice(entry: TopicConfigEntry, text: str) -> str:
    if text not in entry.choices:
        raise _not_among(entry, text)
    return text


def _items(text: str) -> tuple[str, ...]:
    """Comma-separated items without duplicates, in their order."""
    items: Iterable[str] = (item.strip() for item in text.split(","))
    return tuple(dict.fromkeys(item for item in items if item))


def _not_among(entry: TopicConfigEntry, text: str) -> InvalidTopicConfigError:
    return _invalid(entry, text, f"String must be one of: {', '.join(entry.choices)}")


def _invalid(entry: TopicConfigEntry, text: str, why: str) -> InvalidTopicConfigError:
    return InvalidTopicConfigError(f"Invalid value {text} for configuration {entry.name}: {why}")
