"""Records of an offsets topic: which topics are copies, and which offsets of theirs belong together.

The topic is compacted and has one partition. Keys and values are JSON:

    ["copy", TOPIC]                      {"version": 1, "source": .., "source_topic": .., "path": [..]}
    ["sync", TOPIC, PARTITION, SLOT]     {"version": 1, "number": .., "source_id": .., "copy_id": ..,
                                          "source": [FIRST, NEXT], "copy": [FIRST, NEXT], "records": ..}

TOPIC is the copy's name. A sync is written in the transaction of the records that it speaks of: what was
read from FIRST to before NEXT in the source has the offsets from FIRST to before NEXT in the copy.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from highwater.model.errors import UsageError

VERSION: Final = 1

RING: Final = 32
"""Places of each level of slots."""

_COPY: Final = "copy"
_SYNC: Final = "sync"


class OffsetsUnreadable(UsageError):
    """The offsets topic has a record that is none of ours, or of a later version."""

    reason = "OFFSETS_UNREADABLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A topic of the target that is a copy of `source_topic` at the source with this alias.

    `path` are the ids of all clusters that its records went through, the source last.
    """

    topic: str
    source: str
    source_topic: str
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """A copy that its mirror has given up before it wrote anything."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """One transaction of one partition; numbers count from 1. The ids are those of the topics."""

    topic: str
    partition: int
    number: int
    source_id: str
    copy_id: str
    source_first: int
    source_next: int
    copy_first: int
    copy_next: int
    records: int


OffsetRecord = Copy | Withdrawn | Sync


def slot(number: int) -> int:
    """Returns the place of a sync, which a later one takes over.

    A ruler: odd numbers share RING places, numbers that 2 divides and 4 does not share the next RING, and so
    on. Compaction so leaves the last 2 * RING syncs, every second one of twice as many, every fourth one of
    four times as many: before what is D back there is a sync within about D / RING, and all of them together
    are at most RING times the logarithm of their number.
    """
    level = (number & -number).bit_length() - 1
    return level * RING + (number >> (level + 1)) % RING


def key_of(record: OffsetRecord) -> bytes:
    """Returns the key."""
    if isinstance(record, Sync):
        parts: list[Any] = [_SYNC, record.topic, record.partition, slot(record.number)]
    else:
        parts = [_COPY, record.topic]
    return json.dumps(parts).encode()


def value_of(record: OffsetRecord) -> bytes | None:
    """Returns the value; None is a tombstone."""
    if isinstance(record, Withdrawn):
        return None
    if isinstance(record, Copy):
        document: dict[str, Any] = {
            "source": record.source,
            "source_topic": record.source_topic,
            "path": list(record.path),
        }
    else:
        document = {
            "number": record.number,
            "source_id": record.source_id,
            "copy_id": record.copy_id,
            "source": [record.source_first, record.source_next],
            "copy": [record.copy_first, record.copy_next],
            "records": record.records,
        }
    return json.dumps({"version": VERSION, **document}).encode()


def parse(key: bytes | None, value: bytes | None) -> OffsetRecord:
    """Returns what `key_of` and `value_of` wrote. Raises OffsetsUnreadable."""
    try:
        kind, topic, *place = json.loads(key or b"")
        document = None if value is None else json.loads(value)
        if kind == _COPY and document is None:
            return Withdrawn(topic=topic)
        if document is not None and document["version"] == VERSION:
            if kind == _COPY:
                return _copy(topic, document)
            if kind == _SYNC:
                return _sync(topic, int(place[0]), document)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise OffsetsUnreadable(f"an offsets topic has the record {key!r}: {error!r}") from error
    raise OffsetsUnreadable(f"an offsets topic has the record {key!r}, not of version {VERSION}")


def _copy(topic: str, document: dict[str, Any]) -> Copy:
    return Copy(
        topic=topic,
        source=document["source"],
        source_topic=document["source_topic"],
        path=tuple(document["path"]),
    )


def _sync(topic: str, partition: int, document: dict[str, Any]) -> Sync:
    (source_first, source_next), (copy_first, copy_next) = document["source"], document["copy"]
    return Sync(
        topic=topic,
        partition=partition,
        number=document["number"],
        source_id=document["source_id"],
        copy_id=document["copy_id"],
        source_first=source_first,
        source_next=source_next,
        copy_first=copy_first,
        copy_next=copy_next,
        records=document["records"],
    )
