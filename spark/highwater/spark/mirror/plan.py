"""What a mirror copies next: a decision from the syncs in the target and what the source offers, without I/O.

For each partition of a topic that is copied:

    last sync           source                     the mirror
    none                earliest..latest           begins at earliest, which is told, or where --from says if
                                                   the topic has no copy at all (`without_copy`)
    other source id     (deleted, made anew)       tells it, begins at earliest, behind what the copy has; what
                                                   is before earliest is gone by retention
    other copy id       (the copy was deleted)     tells it, begins at earliest
    next in range       earliest <= next <= latest goes on at next
    next below          next < earliest            tells what is gone by retention, goes on at earliest
    next above          next > latest              OffsetsOutOfRange: the log lost its end; or a transaction
                                                   is open over what was read uncommitted: tells it, and waits

Where no sync says yet that a partition stands where it goes on, work is planned also if there is nothing to read.
Its sync does: so it is told once that a topic was made anew, and what retention takes of a partition that was
empty is missed, too.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from highwater.spark.brokers import TopicPartition
from highwater.spark.load_plan import Gone, Offered, OffsetsOutOfRange, late_starts
from highwater.spark.mirror.offset_map import OffsetMap
from highwater.spark.mirror.offset_records import Sync


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyState:
    """A copy as the target has it. Batches of its records may have `batch_bytes`."""

    topic_id: str
    partitions: int
    batch_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Offsets of one partition, from `start` to before `end`, that one task copies.

    `newest` is the last sync that the plan knows.
    """

    topic: str
    partition: int
    start: int
    end: int
    source_id: str
    copy: str
    copy_id: str
    batch_bytes: int
    newest: Sync | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`work` is what is to be done now; `positions` are the next offsets before it; `told` are sentences."""

    work: tuple[Work, ...]
    positions: Mapping[TopicPartition, int]
    gone: tuple[Gone, ...]
    told: tuple[str, ...]


@dataclass(slots=True)
class _Draft:
    work: list[Work]
    positions: dict[TopicPartition, int]
    gone: list[Gone]
    told: list[str]


def plan(
    offered: Mapping[str, Offered],
    names: Mapping[str, str],
    copies: Mapping[str, CopyState],
    known: OffsetMap,
    *,
    starts: Mapping[TopicPartition, int],
    goal: Mapping[TopicPartition, int] | None,
    offsets_max: int,
    high_watermarks: Mapping[TopicPartition, int] | None = None,
) -> Plan:
    """Returns what to copy.

    `offered` are the topics of the source, `names` those of their copies, `copies` what the target has.
    Partitions without any sync begin at `starts`, else at their earliest offset. Nothing is read beyond
    `goal`, if there is one, and at most `offsets_max` of each partition. `high_watermarks` are those of the
    partitions that `beyond` names. Raises OffsetsOutOfRange.
    """
    draft = _Draft([], {}, [], [])
    for topic, offer in sorted(offered.items()):
        name = names[topic]
        copy = copies[name]
        _tell_of_topic(draft, topic, offer, copy, name, known)
        late: dict[int, int] = {}
        for number, (earliest, latest) in sorted(offer.bounds.items()):
            place = TopicPartition(topic, number)
            newest = known.newest(name, number)
            stands: int | None
            if newest is None:
                # A time may point into a transaction that is open, beyond what is read now.
                start = min(max(starts.get(place, earliest), earliest), latest)
                stands = None
                if start == earliest:
                    late[number] = earliest
            elif _is_of(newest, offer, copy):
                stands = newest.source_next
                if _is_hidden(draft, place, stands, latest, high_watermarks or {}):
                    draft.positions[place] = stands
                    continue
                start = _go_on(draft, place, stands, earliest)
            else:
                start, stands = earliest, None
                if newest.source_id != offer.topic_id:
                    _tell_gone(draft, place, 0, earliest)
                else:
                    late[number] = earliest
            end = latest if goal is None else min(latest, goal.get(place, start))
            end = max(start, min(end, start + offsets_max))
            draft.positions[place] = start
            if start < end or start != stands:
                draft.work.append(
                    Work(
                        topic=topic, partition=number, start=start, end=end,
                        source_id=offer.topic_id, copy=name, copy_id=copy.topic_id,
                        batch_bytes=copy.batch_bytes, newest=newest,
                    )
                )  # fmt: skip
        draft.told += late_starts(topic, late)
    return Plan(
        work=tuple(draft.work),
        positions=draft.positions,
        gone=tuple(draft.gone),
        told=tuple(draft.told),
    )


def without_copy(
    offered: Mapping[str, Offered], names: Mapping[str, str], known: OffsetMap
) -> dict[str, Offered]:
    """Returns the topics none of whose partitions has a sync: a run that begins leaves out what is before --from.

    A partition without a sync beside others that have one came while no mirror ran, so that its records are
    new. Or a first run ended before it copied this one; then more is copied than was asked for. The two look
    alike, and only one of them would lose records.
    """
    return {topic: offer for topic, offer in offered.items() if known.partitions(names[topic]) == 0}


def is_of(sync: Sync, source_id: str, copy_id: str) -> bool:
    """Whether the sync speaks of the topics with these ids, and not of earlier ones of their names."""
    return (sync.source_id, sync.copy_id) == (source_id, copy_id)


def _tell_of_topic(
    draft: _Draft, topic: str, offer: Offered, copy: CopyState, name: str, known: OffsetMap
) -> None:
    newest = [known.newest(name, number) for number in offer.bounds]
    others = [each for each in newest if each is not None and not _is_of(each, offer, copy)]
    if any(each.source_id != offer.topic_id for each in others):
        was = known.partitions(name)
        fewer = (
            f", with {len(offer.bounds)} partitions, not {was}" if len(offer.bounds) < was else ""
        )
        draft.told.append(
            f"topic {topic} was made anew{fewer}: it is copied from its beginning, behind what its "
            "copy has"
        )
    elif others:
        draft.told.append(
            f"the copy {name} was deleted or made anew: {topic} is copied from its beginning"
        )


def _is_of(sync: Sync, offer: Offered, copy: CopyState) -> bool:
    return is_of(sync, offer.topic_id, copy.topic_id)


def departed(
    known: OffsetMap, there: Collection[str], pattern: str | None, alias: str
) -> list[str]:
    """Returns a sentence for each topic of the pattern that was copied, and is not at the source any more."""
    if pattern is None:
        return []
    return [
        f"topic {copy.source_topic}, which {copy.topic} is a copy of, is not at {alias} any more"
        for copy in sorted(known.copies.values(), key=lambda each: each.topic)
        if copy.source == alias
        and copy.source_topic not in there
        and re.fullmatch(pattern, copy.source_topic)
    ]


def beyond(
    offered: Mapping[str, Offered],
    names: Mapping[str, str],
    copies: Mapping[str, CopyState],
    known: OffsetMap,
) -> list[TopicPartition]:
    """Returns the partitions that are copied further than the source offers them."""
    return [
        TopicPartition(topic, number)
        for topic, offer in offered.items()
        for number, (_, latest) in offer.bounds.items()
        if (newest := known.newest(names[topic], number)) is not None
        and _is_of(newest, offer, copies[names[topic]])
        and latest < newest.source_next
    ]


def _is_hidden(
    draft: _Draft,
    place: TopicPartition,
    position: int,
    latest: int,
    high_watermarks: Mapping[TopicPartition, int],
) -> bool:
    """Whether an open transaction hides what was copied already; tells it. Raises OffsetsOutOfRange."""
    if latest >= position:
        return False
    name = f"{place.topic}-{place.partition}"
    if (end := high_watermarks.get(place, latest)) < position:
        raise OffsetsOutOfRange(f"{name} ends at {end}, but it was copied up to {position}")
    draft.told.append(
        f"{name} was copied with --read-uncommitted up to {position}, and a transaction is open from "
        f"{latest} on: nothing of it is read until that ends"
    )
    return True


def _go_on(draft: _Draft, place: TopicPartition, position: int, earliest: int) -> int:
    """Returns where a partition goes on that was copied up to `position`."""
    _tell_gone(draft, place, position, earliest)
    return max(position, earliest)


def _tell_gone(draft: _Draft, place: TopicPartition, start: int, earliest: int) -> None:
    if start < earliest:
        draft.gone.append(
            Gone(topic=place.topic, partition=place.partition, start=start, end=earliest)
        )
        draft.told.append(
            f"{earliest - start} offsets of {place.topic}-{place.partition}, from {start} on, are gone by "
            "retention before they were copied"
        )
