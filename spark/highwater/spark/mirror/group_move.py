"""Offsets of a consumer group that moves from the topics of a source to their copies."""

from collections.abc import Mapping
from dataclasses import dataclass

from highwater.spark.brokers import TopicPartition
from highwater.spark.mirror.offset_map import OffsetMap, translate


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedOffset:
    """Where a group goes on in a copy; not exact means that it reads some records again, and never less."""

    topic: str
    partition: int
    offset: int
    source_topic: str
    source_offset: int
    is_exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The offsets of the copies, and sentences about partitions that have none."""

    offsets: tuple[MovedOffset, ...]
    told: tuple[str, ...]


def move(
    committed: Mapping[TopicPartition, int],
    known: OffsetMap,
    *,
    alias: str,
    source_ids: Mapping[str, str],
    copy_ids: Mapping[str, str],
) -> Move:
    """Returns where a group goes on that has `committed` offsets at the source.

    The ids are those of the topics as they are now; topics without one are not there.
    """
    names = {
        each.source_topic: each.topic for each in known.copies.values() if each.source == alias
    }
    found, told = [], []
    for place, offset in sorted(committed.items()):
        label = f"{place.topic}-{place.partition}"
        name = names.get(place.topic)
        syncs = [] if name is None else known.syncs(name, place.partition)
        if name is None or not syncs:
            told.append(f"{label} is not copied: offset {offset} is left out")
            continue
        ids = (syncs[-1].source_id, syncs[-1].copy_id)
        if ids != (source_ids.get(place.topic), copy_ids.get(name)):
            told.append(f"{label} or its copy was made anew since: offset {offset} is left out")
            continue
        moved = translate(syncs, offset)
        assert moved is not None
        found.append(
            MovedOffset(
                topic=name, partition=place.partition, offset=moved.offset,
                source_topic=place.topic, source_offset=offset, is_exact=moved.is_exact,
            )
        )  # fmt: skip
    return Move(offsets=tuple(found), told=tuple(told))


def csv_line(offset: MovedOffset) -> str:
    """Returns the line that `kafka-consumer-groups --reset-offsets --from-file` reads."""
    return f"{offset.topic},{offset.partition},{offset.offset}"
