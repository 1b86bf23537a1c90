"""What the tellers of a bank did and what consumers saw of it, as plain values.

A transfer is one transaction: postings to two accounts or more, in different partitions, that sum up to
nothing. All bytes follow from teller and number, so that a history holds only names.
"""

from __future__ import annotations

from collections import defaultdict
from enum import Enum
from typing import NamedTuple

_TO_ALL_EVERY = 7
_SIZES = (40, 200, 2_000)


class Outcome(Enum):
    """What a client knows about a transaction of its own."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """It asked for the commit and had to give up before the answer: either may be true."""


class Transfer(NamedTuple):
    """The transaction `number`, from 0 on, of a teller."""

    teller: str
    number: int


class Posting(NamedTuple):
    """One record of a transfer."""

    partition: int
    amount: int


class Leg(NamedTuple):
    """The name of a posting: the one at `place` among those of a transfer."""

    transfer: Transfer
    place: int


class Ends(NamedTuple):
    """Where consumers of a partition find its end, by isolation level."""

    last_stable: int
    high_watermark: int


Stored = tuple[int, Leg | None]
"""A record's offset, and what it is; None: nothing that a teller writes there."""


class Ledger:
    """The history of a bank. Each thread that fills it has its own parts."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.outcomes: dict[Transfer, Outcome] = {}
        """Of every transfer that was begun, in order."""
        self.committed_s: dict[str, list[float]] = defaultdict(list)
        """By teller, when commits were answered (monotonic)."""
        self.errors: dict[str, list[str]] = defaultdict(list)
        """By client, errors that nobody expects."""
        self.read: dict[int, list[Stored]] = {p: [] for p in range(partitions)}
        """By partition, what a read_committed consumer read while there were faults."""
        self.committed: dict[int, list[Stored]] = {p: [] for p in range(partitions)}
        """By partition, all that read_committed shows in the end."""
        self.everything: dict[int, list[Stored]] = {p: [] for p in range(partitions)}
        """By partition, all that read_uncommitted shows in the end."""
        self.ends: dict[int, Ends] = {}

    def count(self, outcome: Outcome) -> int:
        return list(self.outcomes.values()).count(outcome)


def postings_of(transfer: Transfer, partitions: int) -> tuple[Posting, ...]:
    """From one partition to another one; sometimes from one to all others."""
    number = transfer.number
    debit = number % partitions
    amount = 1 + number % 97
    if number % _TO_ALL_EVERY == 0:
        others = [p for p in range(partitions) if p != debit]
        return (Posting(debit, -amount * len(others)), *(Posting(p, amount) for p in others))
    credit = (debit + 1 + number // partitions % (partitions - 1)) % partitions
    return Posting(debit, -amount), Posting(credit, amount)


def value_of(leg: Leg, partitions: int) -> bytes:
    """The bytes of a posting: its name, its amount, and padding."""
    posting = postings_of(leg.transfer, partitions)[leg.place]
    teller, number = leg.transfer
    name = f"{teller}:{number}:{leg.place}:{posting.partition}:{posting.amount}:".encode()
    size = _SIZES[number % len(_SIZES)]
    return name + b"." * max(0, size - len(name))


def leg_in(partition: int, value: bytes | None, partitions: int) -> Leg | None:
    """What a record in the partition is; None if it is not a teller's, or not as it was sent."""
    fields = (value or b"").split(b":", 3)
    if len(fields) < 4 or not fields[1].isdigit() or not fields[2].isdigit():
        return None
    leg = Leg(Transfer(fields[0].decode("ascii", "replace"), int(fields[1])), int(fields[2]))
    postings = postings_of(leg.transfer, partitions)
    if leg.place >= len(postings) or postings[leg.place].partition != partition:
        return None
    return leg if value == value_of(leg, partitions) else None
