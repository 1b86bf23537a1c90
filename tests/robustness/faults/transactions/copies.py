"""What copiers read, wrote and committed: the history of a copy, and its checker. Pure.

A copier reads records of one topic, writes them to the same partitions of another one, and commits the
group's offsets, all in one transaction. The properties are R9, R11 and R16, and that a transaction is
atomic across records and offsets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.robustness.faults.checker import (
    COMMIT_LOST,
    DUPLICATE,
    FOREIGN_RECORD,
    LOST,
    REORDERED,
    VANISHED,
    Violation,
)
from tests.robustness.faults.history import FOREIGN, number_in
from tests.robustness.faults.transactions.ledger import Ends
from tests.robustness.faults.transactions.ledger_checker import TORN, of_ends

INCOMPLETE = "incomplete"
"""The group did not come to the end of the input."""


class CopyHistory:
    """See the module. `committed_s` and `errors` are filled by the copiers' threads."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.committed_s: dict[str, list[float]] = defaultdict(list)
        """By copier, when commits were answered (monotonic)."""
        self.aborts: dict[str, int] = defaultdict(int)
        """By copier, transactions that it aborted, on purpose or not."""
        self.replaced: dict[str, list[str]] = defaultdict(list)
        """By copier, the errors for which clients were replaced by new ones."""
        self.errors: dict[str, list[str]] = defaultdict(list)
        """By copier, errors that nobody expects."""
        self.inputs: dict[int, list[tuple[int, int]]] = {p: [] for p in range(partitions)}
        """By partition, (offset, number) of every record to be copied."""
        self.committed: dict[int, list[tuple[int, int]]] = {p: [] for p in range(partitions)}
        """By partition, (offset, number) of all copies that read_committed shows."""
        self.everything: dict[int, list[tuple[int, int]]] = {p: [] for p in range(partitions)}
        """By partition, (offset, number) of all copies that read_uncommitted shows."""
        self.group: dict[int, int] = {}
        """By partition, the group's committed offset."""
        self.ends: dict[int, Ends] = {}
        """Of the output."""


def copy_in(partition: int, value: bytes | None, prefix: bytes) -> int:
    """The number of the record whose copy this is; FOREIGN if it is none."""
    if value is None or not value.startswith(prefix):
        return FOREIGN
    return number_in(partition, value.removeprefix(prefix))


def violations(history: CopyHistory) -> list[Violation]:
    """All violations, by kind; empty for a correct history."""
    found: list[Violation] = []
    for partition in range(history.partitions):
        found += _of_partition(history, partition)
    found += of_ends(history.ends, history.partitions)
    return sorted(found, key=lambda violation: violation.kind)


def _of_partition(history: CopyHistory, partition: int) -> Iterator[Violation]:
    def violation(kind: str, text: str) -> Violation:
        return Violation(kind=kind, partition=partition, text=text)

    inputs = history.inputs[partition]
    end = inputs[-1][0] + 1 if inputs else 0
    reached = history.group.get(partition, 0)
    if reached > end:
        yield violation(COMMIT_LOST, f"the group is at {reached}, behind the input's end {end}")
    elif reached < end:
        yield violation(INCOMPLETE, f"the group is at {reached} of {end}")
    known = {number for _, number in inputs}
    due = {number for offset, number in inputs if offset < reached}
    everything = dict(history.everything[partition])
    copied: dict[int, int] = {}
    highest = -1
    for offset, number in history.committed[partition]:
        if everything.get(offset) != number:
            text = f"copy {number} at {offset} is {everything.get(offset)} for read_uncommitted"
            yield violation(VANISHED, text)
        if number not in known:
            yield violation(FOREIGN_RECORD, f"offset {offset} holds no copy of a record")
            continue
        if number in copied:
            yield violation(DUPLICATE, f"copies of {number} at {copied[number]} and {offset}")
        elif number < highest:
            yield violation(REORDERED, f"the copy of {number} at {offset} is behind {highest}")
        if number not in due:
            text = f"the copy of {number} is committed, and the group's offset {reached} is not"
            yield violation(TORN, text)
        copied.setdefault(number, offset)
        highest = max(highest, number)
    for number in sorted(due - set(copied)):
        yield violation(LOST, f"the group is at {reached}, and there is no copy of {number}")
