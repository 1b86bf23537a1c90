"""Topic configs: names, types, defaults and limits as Apache Kafka 4.3 has them, and one of ours.

Source: `org.apache.kafka.storage.internals.log.LogConfig`. Values travel as strings; `parse` reads
one, `validate` a whole set as CreateTopics and IncrementalAlterConfigs give it, and `effective`
makes the typed view that a partition works by.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from highwater.model.broker_config import BROKER_CONFIGS, TOPIC_CONFIG_SYNONYMS
from highwater.model.config_type import ConfigType

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

_DAY_MS: Final = 24 * 3600 * 1000
_HOUR_MS: Final = 3600 * 1000
_UNITS_MS: Final = {".hours": _HOUR_MS, ".minutes": 60_000}
_THROTTLED: Final = re.compile(r"\*|(\s*\d+\s*:\s*\d+\s*)(,\s*\d+\s*:\s*\d+\s*)*")

Value = int | float | bool | str | tuple[str, ...]


class InvalidTopicConfigError(ValueError):
    """A config that no topic may have; the text is fit for the client (INVALID_CONFIG, 40)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigEntry:
    """One config of the table. Limits are inclusive; None is no limit beyond the type's."""

    name: str
    type: ConfigType
    default: str
    documentation: str
    low: float | None = None
    high: float | None = None
    also: int | None = None
    """A value outside [low, high] that is allowed too."""
    choices: tuple[str, ...] = ()
    """Of a string or of a list's items; empty if they are free."""
    pattern: re.Pattern[str] | None = None
    """What the whole text must match, if it is not empty."""


def _long(
    name: str, default: int, documentation: str, *, low: int | None = 0, high: int | None = None
) -> TopicConfigEntry:
    return TopicConfigEntry(
        name=name,
        type=ConfigType.LONG,
        default=str(default),
        documentation=documentation,
        low=low,
        high=high,
    )


def _int(
    name: str,
    default: int,
    documentation: str,
    *,
    low: int | None = 0,
    high: int | None = None,
    also: int | None = None,
) -> TopicConfigEntry:
    return TopicConfigEntry(
        name=name,
        type=ConfigType.INT,
        default=str(default),
        documentation=documentation,
        low=low,
        high=high,
        also=also,
    )


def _boolean(name: str, documentation: str) -> TopicConfigEntry:
    return TopicConfigEntry(
        name=name, type=ConfigType.BOOLEAN, default="false", documentation=documentation
    )


def _choice(
    name: str,
    default: str,
    documentation: str,
    *,
    choices: tuple[str, ...],
    type_: ConfigType = ConfigType.STRING,
) -> TopicConfigEntry:
    return TopicConfigEntry(
        name=name, type=type_, default=default, documentation=documentation, choices=choices
    )


def _throttled(name: str, documentation: str) -> TopicConfigEntry:
    return TopicConfigEntry(
        name=name,
        type=ConfigType.LIST,
        default="",
        documentation=documentation,
        pattern=_THROTTLED,
    )


_ENTRIES: Final = (
    _choice(
        "cleanup.policy",
        "delete",
        "What becomes of old segments: `delete`, `compact` or both; nothing keeps them for good.",
        choices=("compact", "delete"),
        type_=ConfigType.LIST,
    ),
    _int(
        "compression.gzip.level",
        -1,
        "The level for compression.type=gzip; -1 is the library's own.",
        low=1,
        high=9,
        also=-1,
    ),
    _int("compression.lz4.level", 9, "The level for compression.type=lz4.", low=1, high=17),
    _choice(
        "compression.type",
        "producer",
        "The codec of stored batches; `producer` keeps what the producer chose.",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    _int("compression.zstd.level", 3, "The level for compression.type=zstd.", low=-131072, high=22),
    _long(
        "delete.retention.ms", _DAY_MS, "How long a compacted topic keeps markers of deleted keys."
    ),
    _long("file.delete.delay.ms", 60_000, "How long files of a deleted segment stay on disk."),
    _long("flush.messages", LONG_MAX, "A log is flushed to disk after this many records.", low=1),
    _long("flush.ms", LONG_MAX, "A log is flushed to disk after this long."),
    _throttled(
        "follower.replication.throttled.replicas",
        "Replicas whose replication is throttled as followers: partition:node pairs, or `*`.",
    ),
    _int("index.interval.bytes", 4096, "Bytes of a segment for each entry of its offset index."),
    _throttled(
        "leader.replication.throttled.replicas",
        "Replicas whose replication is throttled as leaders: partition:node pairs, or `*`.",
    ),
    _long(
        "local.retention.bytes",
        -2,
        "Size that stays on local disk with tiered storage; -2 follows retention.bytes.",
        low=-2,
    ),
    _long(
        "local.retention.ms",
        -2,
        "Time that stays on local disk with tiered storage; -2 follows retention.ms.",
        low=-2,
    ),
    _long(
        "max.compaction.lag.ms",
        LONG_MAX,
        "The longest that a record of a compacted topic may stay uncompacted.",
        low=1,
    ),
    _int(
        "max.message.bytes", 1048588, "The largest record batch that is accepted, as it is stored."
    ),
    _long(
        "message.timestamp.after.max.ms",
        _HOUR_MS,
        "How far a record's timestamp may lie ahead of the broker's clock.",
    ),
    _long(
        "message.timestamp.before.max.ms",
        LONG_MAX,
        "How far a record's timestamp may lie behind the broker's clock.",
    ),
    _choice(
        "message.timestamp.type",
        "CreateTime",
        "Whose timestamp records bear: the producer's (CreateTime) or the broker's (LogAppendTime).",
        choices=("CreateTime", "LogAppendTime"),
    ),
    TopicConfigEntry(
        name="min.cleanable.dirty.ratio",
        type=ConfigType.DOUBLE,
        default="0.5",
        documentation="The share of a log that must be dirty before it is compacted.",
        low=0,
        high=1,
    ),
    _long(
        "min.compaction.lag.ms",
        0,
        "The shortest that a record of a compacted topic stays uncompacted.",
    ),
    _int("min.insync.replicas", 1, "Replicas that must be in sync for acks=all to succeed.", low=1),
    _boolean("preallocate", "Reserve disk space for whole segments."),
    _choice(
        "record.validation",
        "header",
        "`header` checks batch headers and checksums; `deep` also every record, as Kafka does.",
        choices=("header", "deep"),
    ),
    _boolean("remote.log.copy.disable", "With tiered storage: tier nothing more."),
    _boolean(
        "remote.log.delete.on.disable", "With tiered storage: delete tiered data when it ends."
    ),
    _boolean("remote.storage.enable", "Tiered storage, which this broker does not have."),
    _long(
        "retention.bytes",
        -1,
        "A partition's oldest segments go when it is larger than this; -1 is no limit.",
        low=None,
    ),
    _long("retention.ms", 7 * _DAY_MS, "Segments older than this go; -1 is no limit.", low=-1),
    _int("segment.bytes", 1 << 30, "The size of a segment when full.", low=1 << 20),
    _int("segment.index.bytes", 10 << 20, "The size of an index when full.", low=4),
    _long(
        "segment.jitter.ms",
        0,
        "Up to this much is taken off segment.ms, so that not all logs roll at once.",
    ),
    _long("segment.ms", 7 * _DAY_MS, "A new segment is begun after this long.", low=1),
    _boolean(
        "unclean.leader.election.enable",
        "Whether a replica that misses records may lead when no other can.",
    ),
)

TOPIC_CONFIGS: Final[Mapping[str, TopicConfigEntry]] = {entry.name: entry for entry in _ENTRIES}
"""All topic configs by name, in the order of their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """A topic's configs as they hold, typed; names are Kafka's with underscores for dots."""

    cleanup_policy: tuple[str, ...]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
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
        """Whether every record is checked: asked for, or needed because keys must be present."""
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
    """Checks a topic's whole set of configs, and that they do not contradict one another."""
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


def effective(
    configs: Mapping[str, str], broker_configs: Mapping[str, str] | None = None
) -> TopicConfig:
    """What holds for a topic that sets `configs`, under the brokers' dynamic configs.

    A stored value that is not valid any more counts as not set: a topic must stay usable.
    """
    values = {
        entry.name.replace(".", "_"): _effective_value(entry, configs, broker_configs or {})
        for entry in _ENTRIES
    }
    return TopicConfig(**values)  # type: ignore[arg-type]  # the table has the fields' types


def default_values(broker_configs: Mapping[str, str] | None = None) -> dict[str, str]:
    """{name: value} of a topic that sets nothing."""
    given = broker_configs or {}
    return {entry.name: _default_text(entry, given) for entry in _ENTRIES}


def items_of(name: str, value: str) -> tuple[str, ...]:
    """The items of a LIST config's value, for APPEND and SUBTRACT; unchecked."""
    assert TOPIC_CONFIGS[name].type is ConfigType.LIST
    return _items(value)


def _effective_value(
    entry: TopicConfigEntry, configs: Mapping[str, str], broker_configs: Mapping[str, str]
) -> Value:
    candidates = [configs[entry.name]] if entry.name in configs else []
    candidates.append(_default_text(entry, broker_configs))
    for text in candidates:
        try:
            return parse(entry.name, text)
        except InvalidTopicConfigError:
            continue
    return parse(entry.name, entry.default)


def _default_text(entry: TopicConfigEntry, broker_configs: Mapping[str, str]) -> str:
    """The brokers' value for all topics; times there may be in hours or minutes."""
    for name in TOPIC_CONFIG_SYNONYMS.get(entry.name, ()):
        text = broker_configs.get(name)
        if text is None or name not in BROKER_CONFIGS:
            continue
        unit = next((ms for suffix, ms in _UNITS_MS.items() if name.endswith(suffix)), 1)
        if unit == 1:
            return text
        number = text.strip()
        if number.lstrip("-").isdecimal():
            return str(int(number) * unit if int(number) > 0 else int(number))
    return entry.default


def _parse_boolean(entry: TopicConfigEntry, text: str) -> bool:
    lowered = text.lower()
    if lowered not in {"true", "false"}:
        raise _invalid(entry, text, "Expected value to be either true or false")
    return lowered == "true"


def _parse_number(entry: TopicConfigEntry, text: str) -> int | float:
    number: int | float
    try:
        number = float(text) if entry.type is ConfigType.DOUBLE else _integer(text)
    except ValueError:
        raise _invalid(entry, text, f"Not a number of type {entry.type.name}") from None
    type_max = INT_MAX if entry.type is ConfigType.INT else LONG_MAX
    if not -type_max - 1 <= number <= type_max:
        raise _invalid(entry, text, f"Not a number of type {entry.type.name}")
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
    """As Java's parser: no underscores, no inner blanks, which `int` would take."""
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
    return items


def _parse_choice(entry: TopicConfigEntry, text: str) -> str:
    if text not in entry.choices:
        raise _not_among(entry, text)
    return text


def _items(text: str) -> tuple[str, ...]:
    """Comma-separated items without repetitions, in their first order."""
    items: Iterable[str] = (item.strip() for item in text.split(","))
    return tuple(dict.fromkeys(item for item in items if item))


def _not_among(entry: TopicConfigEntry, text: str) -> InvalidTopicConfigError:
    return _invalid(entry, text, f"String must be one of: {', '.join(entry.choices)}")


def _invalid(entry: TopicConfigEntry, text: str, why: str) -> InvalidTopicConfigError:
    return InvalidTopicConfigError(f"Invalid value {text} for configuration {entry.name}: {why}")
