"""The table of topic configs: names, types, defaults and limits as Apache Kafka 4.3 has them.

Source: `org.apache.kafka.storage.internals.log.LogConfig`; `record.validation`, `consume.allowed.networks`
and `produce.allowed.networks` are ours. The texts
say where a config does less here than in Kafka.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from highwater.model.config_type import ConfigType

LONG_MAX: Final = 2**63 - 1

_DAY_MS: Final = 24 * 3600 * 1000
_HOUR_MS: Final = 3600 * 1000
_THROTTLED: Final = re.compile(r"\*|(\s*\d+\s*:\s*\d+\s*)(,\s*\d+\s*:\s*\d+\s*)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigEntry:
    """One config. Limits are inclusive; None means no limit but the type's."""

    name: str
    type: ConfigType
    default: str
    documentation: str
    low: float | None = None
    high: float | None = None
    also: int | None = None
    """A value outside of [low, high] that is also allowed."""
    choices: tuple[str, ...] = ()
    """Allowed values of a string or of a list's items; empty if any are."""
    pattern: re.Pattern[str] | None = None
    """The pattern that the whole text must match; empty for none."""
    networks: bool = False
    """True for a list of networks (`networks_of_config`)."""


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


def _networks(name: str, documentation: str) -> TopicConfigEntry:
    return TopicConfigEntry(
        name=name, type=ConfigType.LIST, default="", documentation=documentation, networks=True
    )


_ENTRIES: Final = (
    _choice(
        "cleanup.policy",
        "delete",
        "How old records are removed: `delete` drops segments by the retention configs; `compact` keeps"
        " the newest record of each key, and records need keys; both may be combined.",
        choices=("compact", "delete"),
        type_=ConfigType.LIST,
    ),
    _int(
        "compression.gzip.level",
        -1,
        "How hard compression.type=gzip compresses: 1 (fast) to 9, or -1 for zlib's default.",
        low=1,
        high=9,
        also=-1,
    ),
    _int(
        "compression.lz4.level",
        9,
        "How hard compression.type=lz4 compresses: 1 to 17; 9, the default, is the fast compressor.",
        low=1,
        high=17,
    ),
    _choice(
        "compression.type",
        "producer",
        "The codec of stored batches. `producer` keeps each batch's own; batches of other codecs"
        " are compressed anew.",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    _int(
        "compression.zstd.level",
        3,
        "How hard compression.type=zstd compresses: -131072 (fast) to 22.",
        low=-131072,
        high=22,
    ),
    _networks(
        "consume.allowed.networks",
        "Addresses in CIDR notation that the topic may be read from; empty is anywhere, `none` nowhere.",
    ),
    _long(
        "delete.retention.ms",
        _DAY_MS,
        "How long compaction keeps tombstones, counted from its first pass over them.",
    ),
    _long("file.delete.delay.ms", 60_000, "How long files of a deleted segment stay on disk."),
    _long("flush.messages", LONG_MAX, "A log is flushed to disk after this many records.", low=1),
    _long("flush.ms", LONG_MAX, "A log is flushed to disk after this long."),
    _throttled(
        "follower.replication.throttled.replicas",
        "Replicas that follower.replication.throttled.rate limits while they catch up:"
        " partition:node pairs, or `*`.",
    ),
    _int("index.interval.bytes", 4096, "Bytes of a segment for each entry of its offset index."),
    _throttled(
        "leader.replication.throttled.replicas",
        "Replicas that leader.replication.throttled.rate limits while followers catch up:"
        " partition:node pairs, or `*`.",
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
        "The longest that a record stays uncompacted, whatever the log's dirty ratio.",
        low=1,
    ),
    _int(
        "max.message.bytes", 1048588, "The largest record batch that is accepted, as it is stored."
    ),
    _long(
        "message.timestamp.after.max.ms",
        _HOUR_MS,
        "How far a record's timestamp may be ahead of the broker's clock.",
    ),
    _long(
        "message.timestamp.before.max.ms",
        LONG_MAX,
        "How far a record's timestamp may be behind the broker's clock.",
    ),
    _choice(
        "message.timestamp.type",
        "CreateTime",
        "The timestamp of records: the producer's (CreateTime) or the broker's (LogAppendTime).",
        choices=("CreateTime", "LogAppendTime"),
    ),
    TopicConfigEntry(
        name="min.cleanable.dirty.ratio",
        type=ConfigType.DOUBLE,
        default="0.5",
        documentation="A log is compacted when a larger share of its bytes is dirty.",
        low=0,
        high=1,
    ),
    _long(
        "min.compaction.lag.ms",
        0,
        "The shortest that a record stays uncompacted.",
    ),
    _int("min.insync.replicas", 1, "Replicas that must be in sync for acks=all to succeed.", low=1),
    _boolean("preallocate", "Reserve disk space for a whole segment when it begins."),
    _networks(
        "produce.allowed.networks",
        "Addresses in CIDR notation that the topic may be written from; empty is anywhere, `none` nowhere.",
    ),
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
        "The oldest segments of a partition larger than this are deleted; -1 is no limit.",
        low=None,
    ),
    _long("retention.ms", 7 * _DAY_MS, "Older segments are deleted; -1 is no limit.", low=-1),
    _int("segment.bytes", 1 << 30, "The size of a segment when full.", low=1 << 20),
    _int("segment.index.bytes", 10 << 20, "The size of an index when full.", low=4),
    _long(
        "segment.jitter.ms",
        0,
        "A random time up to this is subtracted from segment.ms, so that not all logs roll at once.",
    ),
    _long("segment.ms", 7 * _DAY_MS, "After this long a log begins a new segment.", low=1),
    _boolean(
        "unclean.leader.election.enable",
        "Whether a replica outside of the ISR may lead, and lose records, when no other can.",
    ),
)

TOPIC_CONFIGS: Final[Mapping[str, TopicConfigEntry]] = {entry.name: entry for entry in _ENTRIES}
"""All topic configs by name, in the order of their names."""
