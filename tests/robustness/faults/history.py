"""What clients did and saw during a fault, as plain values.

Records are numbered from 0 in each partition, and their values follow from partition and number, so
that a history holds only numbers. Each thread that fills it has its own parts.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

FOREIGN = -1
"""The number of a record that is not ours, or whose bytes are not those that were sent."""
UNKNOWN_OFFSET = -1
"""In place of the offset of an acknowledged record, if the client does not tell it."""

_SIZES = (20, 100, 1_000, 250)


class Assigned(NamedTuple):
    """A consumer got a partition and reads from `offset`; -1: from the committed offset."""

    partition: int
    offset: int


class Read(NamedTuple):
    """A consumer got a record."""

    partition: int
    offset: int
    number: int


class Committing(NamedTuple):
    """A group is about to commit the offset; whether it will is not yet known."""

    partition: int
    offset: int


class Committed(NamedTuple):
    """The coordinator has confirmed the group's offset."""

    partition: int
    offset: int


Step = Assigned | Read | Committing | Committed


class History:
    """See the module. Times are seconds on the monotonic clock."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.sent: dict[int, int] = dict.fromkeys(range(partitions), 0)
        """By partition, the number of records given to the producer."""
        self.sent_s: dict[int, list[float]] = {p: [] for p in range(partitions)}
        """By partition, when they were."""
        self.acknowledged: dict[int, dict[int, int]] = {p: {} for p in range(partitions)}
        """By partition, the offset of each acknowledged number, or UNKNOWN_OFFSET."""
        self.acknowledged_s: dict[int, list[float]] = {p: [] for p in range(partitions)}
        """By partition, when acknowledgements came."""
        self.standstills: list[str] = []
        """Times at which the producer's thread was blocked, and the calls."""
        self.failed: dict[int, dict[int, str]] = {p: {} for p in range(partitions)}
        """By partition, the errors of numbers that the producer gave up."""
        self.steps: dict[str, list[Step]] = defaultdict(list)
        """By consumer, in order."""
        self.errors: dict[str, list[str]] = defaultdict(list)
        """By client, errors that a user would have to handle."""
        self.stored: dict[int, list[tuple[int, int]]] = {p: [] for p in range(partitions)}
        """By partition, (offset, number) of every record in the log at the end."""

    def acknowledged_count(self) -> int:
        return sum(len(numbers) for numbers in self.acknowledged.values())

    def failed_count(self) -> int:
        return sum(len(numbers) for numbers in self.failed.values())

    def read_count(self, consumer: str) -> int:
        return sum(isinstance(step, Read) for step in self.steps[consumer])


def value_of(partition: int, number: int) -> bytes:
    """The record's value: its name, and bytes that differ from record to record."""
    name = b"%d:%d:" % (partition, number)
    size = _SIZES[number % len(_SIZES)]
    return (name * (size // len(name) + 1))[: max(size, len(name))]


def number_in(partition: int, value: bytes | None) -> int:
    """The number of a record that was read from the partition; FOREIGN if it is not ours."""
    if value is None:
        return FOREIGN
    fields = value.split(b":", 2)
    if len(fields) < 3 or not fields[1].isdigit():
        return FOREIGN
    number = int(fields[1])
    return number if value == value_of(partition, number) else FOREIGN
