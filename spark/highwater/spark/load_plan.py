"""What a load reads next: a decision from the last note and what the brokers offer, without I/O.

For each partition of a wanted topic:

    last note        brokers                       the load
    no topic         earliest..latest              begins at earliest, which is told, or at the given time
    no partition     (added since)                 as with another id
    another id       (deleted, made anew)          tells it, begins anew; old rows keep the old id. What is
                                                   before earliest is gone by retention, unless a time is given
    next in range    earliest <= next <= latest    goes on at next
    next below       next < earliest               tells what is gone by retention, goes on at earliest
    next above       next > latest                 OffsetsOutOfRange: the log lost its end; or a transaction
                                                   is open over what was read uncommitted: tells it, and waits
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from highwater.model.errors import UsageError
from highwater.spark.brokers import TopicPartition
from highwater.spark.load_note import LoadNote, Position, TopicPositions
from highwater.spark.topic_range import OffsetRange
from highwater.spark.value_format import ValueFormat

STARTS_TOLD_MAX: Final = 10
"""How many partitions of a topic are named that begin late."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A partition that is offered, with (earliest, latest)."""

    key: TopicPartition
    topic_id: str
    bounds: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """What the run was asked for; see `plan`."""

    starts: Mapping[TopicPartition, int] | None
    replace: bool
    high_watermarks: Mapping[TopicPartition, int]

    def start(self, place: _Place) -> int | None:
        """Returns the offset of the given time; None if there is none given."""
        latest = place.bounds[1]
        # A time may point into a transaction that is open, beyond what is read now.
        return None if self.starts is None else min(self.starts.get(place.key, latest), latest)


def plan(
    last: LoadNote | None,
    offered: Mapping[str, Offered],
    value_format: ValueFormat,
    *,
    starts: Mapping[TopicPartition, int] | None = None,
    replace: bool = False,
    high_watermarks: Mapping[TopicPartition, int] | None = None,
    pattern: str | None = None,
) -> Plan:
    """Returns what to load.

    `starts` are the offsets of a given time, where a partition without one has no record that is as
    new: partitions begin there that were never loaded. With `replace`, all records from there on are
    loaded anew in place of their rows. `high_watermarks` are those of the partitions that `beyond` names;
    topics of `pattern` that are not offered any more are told. Raises OffsetsOutOfRange.
    """
    draft = _Draft([], [], [], [])
    wish = _Wish(starts=starts, replace=replace, high_watermarks=high_watermarks or {})
    topics = dict(last.topics) if last is not None else {}
    draft.told += _departed(topics, offered, pattern)
    for name, topic in sorted(offered.items()):
        known = topics.get(name)
        is_anew = known is not None and known.topic_id != topic.topic_id
        if last is not None and (known is None or is_anew):
            came = "was made anew" if is_anew else "is new"
            where = "its beginning" if starts is None else "the time of --from on"
            draft.told.append(f"topic {name} {came}: it is loaded from {where}")
        positions = dict(known.partitions) if known is not None and not is_anew else {}
        late: dict[int, int] = {}
        for number, bounds in sorted(topic.bounds.items()):
            place = _Place(key=TopicPartition(name, number), topic_id=topic.topic_id, bounds=bounds)
            position = positions.get(number)
            if position is not None:
                positions[number] = _further(draft, place, position, wish)
                continue
            if known is not None and not is_anew:
                draft.told.append(f"topic {name} has a new partition {number}")
            positions[number] = begun = _begin(draft, place, wish)
            if begun.begin == bounds[0]:
                late[number] = bounds[0]
            # Of a topic that was being loaded, somebody waits for every record.
            if known is not None and starts is None:
                _tell_gone(draft, place.key, 0, late.pop(number))
        draft.told += late_starts(name, late)
        topics[name] = TopicPositions(topic_id=topic.topic_id, partitions=positions)
    note = LoadNote(
        topics=topics,
        ranges=tuple(draft.ranges),
        replace=" OR ".join(draft.replaced) or None,
        gone=tuple(OffsetRange(**asdict(each)) for each in draft.gone),
        value_format=value_format,
    )
    changed = last is None or last.topics != note.topics
    return Plan(
        note=note,
        is_needed=changed or bool(draft.ranges),
        gone=tuple(draft.gone),
        told=tuple(draft.told),
    )


def beyond(last: LoadNote | None, offered: Mapping[str, Offered]) -> list[TopicPartition]:
    """Returns the partitions that the note has further than the brokers offer them."""
    return [
        TopicPartition(name, number)
        for name, topic in (last.topics if last is not None else {}).items()
        if name in offered and offered[name].topic_id == topic.topic_id
        for number, position in topic.partitions.items()
        if number in offered[name].bounds and offered[name].bounds[number][1] < position.next
    ]


def _departed(
    known: Iterable[str], offered: Mapping[str, Offered], pattern: str | None
) -> list[str]:
    if pattern is None:
        return []
    return [
        f"topic {name}, which the table has, is not there any more"
        for name in sorted(known)
        if name not in offered and re.fullmatch(pattern, name)
    ]


def late_starts(name: str, starts: Mapping[int, int]) -> list[str]:
    """One line for a topic that was never loaded, some of whose partitions lack their beginning."""
    late = [f"{start} of partition {number}" for number, start in starts.items() if start > 0]
    if not late:
        return []
    more = len(late) - STARTS_TOLD_MAX
    others = f" and of {more} more partitions" if more > 0 else ""
    named = ", ".join(late[:STARTS_TOLD_MAX])
    sentence = (
        f"topic {name} begins at offset {named}{others}: what was before is not in the log any more"
    )
    return [sentence]


def _is_open(
    key: TopicPartition,
    position: Position,
    latest: int,
    high_watermarks: Mapping[TopicPartition, int],
) -> bool:
    """Whether an open transaction hides offsets that the table has. Raises OffsetsOutOfRange."""
    if latest >= position.next:
        return False
    if (end := high_watermarks.get(key, latest)) < position.next:
        raise OffsetsOutOfRange(
            f"{key.topic}-{key.partition} ends at {end}, but the table has it up to {position.next}"
        )
    return True


def _begin(draft: _Draft, place: _Place, wish: _Wish) -> Position:
    """Returns the position of a partition that was never loaded."""
    earliest, latest = place.bounds
    start = wish.start(place)
    start = earliest if start is None else start
    if wish.replace:
        # All rows of the commit have to match.
        draft.replaced.append(_rows_from(place, start))
    _add(draft, place.key, start, latest)
    return Position(begin=start, next=latest)


def _further(draft: _Draft, place: _Place, position: Position, wish: _Wish) -> Position:
    """Returns the next position of a partition that was loaded before."""
    key, (_, latest) = place.key, place.bounds
    is_open = _is_open(key, position, latest, wish.high_watermarks)
    start = wish.start(place)
    if start is not None and wish.replace:
        return _replace(draft, place, position, start)
    if is_open:
        draft.told.append(
            f"{key.topic}-{key.partition} was loaded with --read-uncommitted up to {position.next}, and a "
            f"transaction is open from {latest} on: nothing of it is read until that ends"
        )
        return position
    if start is not None and start < position.begin:
        draft.told.append(
            f"{key.topic}-{key.partition} was loaded from {position.begin} on, not from {start}: "
            "--replace loads it anew"
        )
    return _go_on(draft, key, position, place.bounds)


def _tell_gone(draft: _Draft, key: TopicPartition, start: int, earliest: int) -> None:
    if start < earliest:
        draft.gone.append(Gone(topic=key.topic, partition=key.partition, start=start, end=earliest))
        draft.told.append(
            f"{earliest - start} offsets of {key.topic}-{key.partition}, from {start} on, are gone by "
            "retention before they were loaded"
        )


def _go_on(
    draft: _Draft, key: TopicPartition, position: Position, bounds: tuple[int, int]
) -> Position:
    earliest, latest = bounds
    _tell_gone(draft, key, position.next, earliest)
    start = max(position.next, earliest)
    _add(draft, key, start, latest)
    return Position(begin=position.begin, next=max(latest, start))


def _replace(draft: _Draft, place: _Place, position: Position, start: int) -> Position:
    earliest, latest = place.bounds
    _tell_gone(draft, place.key, position.next, earliest)
    # Nothing is left out between what the table has and what is loaded anew, but what the log no longer has.
    start = max(min(start, position.next), earliest)
    draft.replaced.append(_rows_from(place, start))
    _add(draft, place.key, start, latest)
    return Position(begin=min(position.begin, start), next=latest)


def _rows_from(place: _Place, start: int) -> str:
    """Rows of a partition from an offset on, in SQL; names of topics have no quotes."""
    return (
        f"(topic = '{place.key.topic}' AND topic_id = '{place.topic_id}' "
        f"AND partition = {place.key.partition} AND offset >= {start})"
    )


def _add(draft: _Draft, key: TopicPartition, start: int, latest: int) -> None:
    if start < latest:
        draft.ranges.append(
            OffsetRange(topic=key.topic, partition=key.partition, start=start, end=latest)
        )
