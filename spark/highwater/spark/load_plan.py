"""What a load reads next: a decision from the last note and what the brokers offer, without I/O.

For each partition of a wanted topic:

    last note        brokers                       the load
    no topic         earliest..latest              begins at earliest, or at the given time
    no partition     (added since)                 begins at earliest, or at the given time
    another id       (deleted, made anew)          tells it, begins anew; old rows keep the old id
    next in range    earliest <= next <= latest    goes on at next
    next below       next < earliest               tells what is gone by retention, goes on at earliest
    next above       next > latest                 OffsetsOutOfRange: the log lost its end
"""

from collections.abc import Mapping
from dataclasses import dataclass

from highwater.model.errors import UsageError
from highwater.spark.brokers import TopicPartition
from highwater.spark.load_note import LoadNote, Position, TopicPositions
from highwater.spark.topic_range import OffsetRange
from highwater.spark.value_format import ValueFormat


class OffsetsOutOfRange(UsageError):
    """A partition ends before the offset that the table says is loaded."""

    reason = "OFFSETS_OUT_OF_RANGE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """A topic as the brokers have it: its id, and (earliest, latest) of each partition."""

    topic_id: str
    bounds: Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """Offsets of a partition, from `start` to before `end`, that no load can read any more."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`note` is to be committed with the rows of its ranges; `told` are sentences for the operator."""

    note: LoadNote
    is_needed: bool
    gone: tuple[Gone, ...]
    told: tuple[str, ...]


@dataclass(slots=True)
class _Draft:
    ranges: list[OffsetRange]
    gone: list[Gone]
    told: list[str]
    replaced: list[str]


def plan(
    last: LoadNote | None,
    offered: Mapping[str, Offered],
    value_format: ValueFormat,
    *,
    starts: Mapping[TopicPartition, int] | None = None,
    replace: bool = False,
) -> Plan:
    """Returns what to load.

    `starts` are the offsets of a given time, where a partition without one has no record that is as
    new: partitions begin there that were never loaded. With `replace`, all records from there on are
    loaded anew in place of their rows. Raises OffsetsOutOfRange.
    """
    draft = _Draft([], [], [], [])
    topics = dict(last.topics) if last is not None else {}
    for name, topic in sorted(offered.items()):
        known = topics.get(name)
        if known is not None and known.topic_id != topic.topic_id:
            draft.told.append(f"topic {name} was made anew: it is loaded from its beginning")
            known = None
        positions = dict(known.partitions) if known is not None else {}
        for number, (earliest, latest) in sorted(topic.bounds.items()):
            key = TopicPartition(name, number)
            position = positions.get(number)
            # A time may point into a transaction that is open, beyond what is read now.
            start = None if starts is None else min(starts.get(key, latest), latest)
            if position is None:
                if known is not None:
                    draft.told.append(f"topic {name} has a new partition {number}")
                start = earliest if start is None else start
                positions[number] = _begin(draft, key, start, latest)
                if replace:
                    # All rows of the commit have to match.
                    draft.replaced.append(_rows_from(key, topic.topic_id, start))
                continue
            if latest < position.next:
                raise OffsetsOutOfRange(
                    f"{name}-{number} ends at {latest}, but the table has it up to {position.next}"
                )
            if start is not None and replace:
                positions[number] = _replace(draft, key, topic.topic_id, position, start, latest)
                continue
            if start is not None and start < position.begin:
                draft.told.append(
                    f"{name}-{number} was loaded from {position.begin} on, not from {start}: "
                    "--replace loads it anew"
                )
            positions[number] = _go_on(draft, key, position, (earliest, latest))
        topics[name] = TopicPositions(topic_id=topic.topic_id, partitions=positions)
    note = LoadNote(
        topics=topics,
        ranges=tuple(draft.ranges),
        replace=" OR ".join(draft.replaced) or None,
        value_format=value_format,
    )
    changed = last is None or last.topics != note.topics
    return Plan(
        note=note,
        is_needed=changed or bool(draft.ranges),
        gone=tuple(draft.gone),
        told=tuple(draft.told),
    )


def _begin(draft: _Draft, key: TopicPartition, start: int, latest: int) -> Position:
    _add(draft, key, start, latest)
    return Position(begin=start, next=latest)


def _go_on(
    draft: _Draft, key: TopicPartition, position: Position, bounds: tuple[int, int]
) -> Position:
    earliest, latest = bounds
    start = position.next
    if start < earliest:
        draft.gone.append(Gone(topic=key.topic, partition=key.partition, start=start, end=earliest))
        draft.told.append(
            f"{earliest - start} offsets of {key.topic}-{key.partition}, from {start} on, are gone by "
            "retention before they were loaded"
        )
        start = earliest
    _add(draft, key, start, latest)
    return Position(begin=position.begin, next=max(latest, start))


def _replace(
    draft: _Draft, key: TopicPartition, topic_id: str, position: Position, start: int, latest: int
) -> Position:
    # Nothing is left out between what the table has and what is loaded anew.
    start = min(start, position.next)
    draft.replaced.append(_rows_from(key, topic_id, start))
    _add(draft, key, start, latest)
    return Position(begin=min(position.begin, start), next=latest)


def _rows_from(key: TopicPartition, topic_id: str, start: int) -> str:
    """Rows of a partition from an offset on, in SQL; names of topics have no quotes."""
    return (
        f"(topic = '{key.topic}' AND topic_id = '{topic_id}' "
        f"AND partition = {key.partition} AND offset >= {start})"
    )


def _add(draft: _Draft, key: TopicPartition, start: int, latest: int) -> None:
    if start < latest:
        draft.ranges.append(
            OffsetRange(topic=key.topic, partition=key.partition, start=start, end=latest)
        )
