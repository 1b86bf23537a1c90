"""Checks a history: no record lost, duplicated or out of order, and no consumer goes back.

Pure. The properties are R1, R4, R8, R9, R10 and R11 of replication, as far as clients see them;
each kind of violation has a name, so that a fault can allow those that it is known to cause.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.robustness.faults.history import (
    FOREIGN,
    UNKNOWN_OFFSET,
    Assigned,
    Committed,
    Committing,
    History,
    Read,
    Step,
)

LOST = "lost"
"""An acknowledged record is not in the log."""
MOVED = "moved"
"""An acknowledged record is in the log, but not at the acknowledged offset."""
DUPLICATE = "duplicate"
"""A record is in the log twice."""
REORDERED = "reordered"
"""A record comes after one that was sent later."""
UNSETTLED = "unsettled"
"""A record was neither acknowledged nor failed."""
FOREIGN_RECORD = "foreign"
"""A record in the log, or one that was read, was not sent in this form."""
GAP = "gap"
"""An offset was skipped, in the log or by a consumer."""
REUSED = "reused"
"""One offset was acknowledged, read or stored with different records."""
BACK = "back"
"""A consumer got an offset again without having asked for it."""
VANISHED = "vanished"
"""A consumer read a record that is not in the log."""
COMMIT_LOST = "commit lost"
"""A group went on from an offset that is not the committed one."""

TOLD_MAX = 5
"""Violations of one kind that a report names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One broken promise."""

    kind: str
    partition: int
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: partition {self.partition}: {self.text}"


def violations(history: History) -> list[Violation]:
    """All violations, by kind; empty for a correct history."""
    found: list[Violation] = []
    for partition in range(history.partitions):
        found += _of_log(history, partition)
        found += _of_acknowledgements(history, partition)
        found += _of_offsets(history, partition)
    for consumer, steps in history.steps.items():
        found += _of_consumer(consumer, steps)
        found += _of_reads(history, consumer, steps)
    return sorted(found, key=lambda violation: violation.kind)


def report(found: Sequence[Violation]) -> str:
    """The violations for people, a few of each kind and how many there are."""
    by_kind: dict[str, list[Violation]] = defaultdict(list)
    for violation in found:
        by_kind[violation.kind].append(violation)
    lines = []
    for kind, some in by_kind.items():
        lines.append(f"{len(some)} x {kind}")
        lines += [f"    partition {one.partition}: {one.text}" for one in some[:TOLD_MAX]]
    return "\n".join(lines)


class Pause(NamedTuple):
    """A time without acknowledgements."""

    seconds: float
    begun_s: float
    """Monotonic."""


def longest_pause(
    sent_s: Sequence[float], acknowledged_s: Sequence[float], *, since: float, until: float
) -> Pause:
    """The longest time between two moments, in seconds, in which records waited and none was
    acknowledged.

    Both are in order, so the n-th acknowledgement ends the n-th record's waiting. A client that
    sends nothing has no pause.
    """
    longest = Pause(0.0, since)
    before = since
    for number, sent in enumerate(sent_s):
        after = acknowledged_s[number] if number < len(acknowledged_s) else until
        begun = max(before, sent, since)
        longest = max(longest, Pause(min(after, until) - begun, begun))
        before = max(before, after)
        if before >= until:
            break
    return longest


def _of_log(history: History, partition: int) -> Iterator[Violation]:
    def violation(kind: str, text: str) -> Violation:
        return Violation(kind=kind, partition=partition, text=text)

    seen: dict[int, int] = {}
    highest = -1
    expected = 0
    for offset, number in history.stored[partition]:
        if offset != expected:
            yield violation(GAP, f"offset {offset} comes after {expected - 1}")
        expected = offset + 1
        if number == FOREIGN or number >= history.sent[partition]:
            yield violation(FOREIGN_RECORD, f"offset {offset} holds no record that was sent")
            continue
        if number in seen:
            yield violation(DUPLICATE, f"record {number} at {seen[number]} and at {offset}")
        elif number < highest:
            yield violation(REORDERED, f"record {number} at {offset} is behind record {highest}")
        seen.setdefault(number, offset)
        highest = max(highest, number)


def _of_acknowledgements(history: History, partition: int) -> Iterator[Violation]:
    def violation(kind: str, text: str) -> Violation:
        return Violation(kind=kind, partition=partition, text=text)

    places: dict[int, set[int]] = defaultdict(set)
    for offset, number in history.stored[partition]:
        places[number].add(offset)
    acknowledged, failed = history.acknowledged[partition], history.failed[partition]
    for number, offset in acknowledged.items():
        if number not in places:
            yield violation(LOST, f"record {number} was acknowledged at {offset}")
        elif offset != UNKNOWN_OFFSET and offset not in places[number]:
            found = sorted(places[number])
            yield violation(MOVED, f"record {number} was acknowledged at {offset}, is at {found}")
    for number in range(history.sent[partition]):
        if number not in acknowledged and number not in failed:
            yield violation(UNSETTLED, f"record {number}")


def _of_offsets(history: History, partition: int) -> Iterator[Violation]:
    """Checks that each offset always belongs to the same record."""
    meanings: dict[int, dict[int, str]] = defaultdict(dict)
    for number, offset in history.acknowledged[partition].items():
        if offset != UNKNOWN_OFFSET:
            meanings[offset].setdefault(number, "acknowledged")
    for offset, number in history.stored[partition]:
        meanings[offset].setdefault(number, "stored")
    for consumer, steps in history.steps.items():
        for step in steps:
            if isinstance(step, Read) and step.partition == partition:
                meanings[step.offset].setdefault(step.number, f"read by {consumer}")
    for offset, said in sorted(meanings.items()):
        if len(said) > 1:
            text = ", ".join(f"record {number} ({who})" for number, who in said.items())
            yield Violation(kind=REUSED, partition=partition, text=f"offset {offset}: {text}")


def _of_reads(history: History, consumer: str, steps: Sequence[Step]) -> Iterator[Violation]:
    stored = {p: set(records) for p, records in history.stored.items()}
    for step in steps:
        if isinstance(step, Read) and (step.offset, step.number) not in stored[step.partition]:
            kind = FOREIGN_RECORD if step.number == FOREIGN else VANISHED
            text = f"{consumer} read record {step.number} at {step.offset}"
            yield Violation(kind=kind, partition=step.partition, text=text)


@dataclass(slots=True)
class _Position:
    """A consumer's position in a partition."""

    next_offset: int | None = None
    """None: the next read says from which committed offset the group goes on."""
    committed: int = 0
    attempted: set[int] | None = None
    """Commits since the last confirmed one, which may have been carried out."""


def committed_at_the_end(steps: Sequence[Step]) -> dict[int, frozenset[int]]:
    """By partition, the offsets one of which a group has committed: the last one that was confirmed,
    and those that it tried to commit since."""
    positions: dict[int, _Position] = defaultdict(_Position)
    for _ in _of_steps("", steps, positions):
        pass  # Violations are reported elsewhere.
    return {
        partition: frozenset({position.committed, *(position.attempted or ())})
        for partition, position in positions.items()
    }


def _of_consumer(consumer: str, steps: Sequence[Step]) -> Iterator[Violation]:
    yield from _of_steps(consumer, steps, defaultdict(_Position))


def _of_steps(
    consumer: str, steps: Sequence[Step], positions: dict[int, _Position]
) -> Iterator[Violation]:
    """Checks the steps of a consumer; fills `positions`."""
    for step in steps:
        position = positions[step.partition]
        match step:
            case Assigned():
                position.next_offset = None if step.offset < 0 else step.offset
            case Committing():
                position.attempted = {*(position.attempted or ()), step.offset}
            case Committed():
                position.committed = step.offset
                position.attempted = None
            case Read():
                yield from _of_read(consumer, step, position)
                position.next_offset = step.offset + 1


def _of_read(consumer: str, step: Read, position: _Position) -> Iterator[Violation]:
    def violation(kind: str, expected: object) -> Violation:
        text = f"{consumer} was given offset {step.offset}, expected {expected}"
        return Violation(kind=kind, partition=step.partition, text=text)

    if position.next_offset is None:
        allowed = {position.committed, *(position.attempted or ())}
        if step.offset not in allowed:
            yield violation(COMMIT_LOST, f"one of {sorted(allowed)}")
        # The group has learnt that it committed this offset: it must not go back before it.
        position.committed = step.offset
        position.attempted = None
    elif step.offset < position.next_offset:
        yield violation(BACK, position.next_offset)
    elif step.offset > position.next_offset:
        yield violation(GAP, position.next_offset)
