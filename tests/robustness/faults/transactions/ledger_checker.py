"""Checks the history of a bank: all or nothing of each transfer, once, and nobody waits for ever.

Pure. The properties are R9, R10, R16 and R19, and that a transaction is atomic across partitions. What
`tests.robustness.faults.checker` says about single records is not said again here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.robustness.faults.checker import (
    BACK,
    DUPLICATE,
    FOREIGN_RECORD,
    LOST,
    REORDERED,
    UNSETTLED,
    VANISHED,
    Violation,
)
from tests.robustness.faults.transactions.ledger import (
    Ends,
    Ledger,
    Leg,
    Outcome,
    Stored,
    Transfer,
    postings_of,
)

ABORTED_SEEN = "aborted record seen"
"""read_committed shows a record of a transaction that was aborted."""
TORN = "torn"
"""read_committed shows a part of a transaction."""
UNBALANCED = "unbalanced"
"""The sum over all accounts is not what it was at the beginning."""
SKIPPED = "skipped"
"""A read_committed consumer was not given a committed record."""
HANGING = "hanging"
"""The last stable offset stays below the high watermark although no transaction goes on."""

ALL = -1
"""The partition of a violation that concerns several."""


def violations(ledger: Ledger) -> list[Violation]:
    """All violations, by kind; empty for a correct history."""
    found = [*_of_transfers(ledger), *_of_balance(ledger)]
    for partition in range(ledger.partitions):
        found += _of_log(ledger, partition)
        found += _of_reads(ledger, partition)
    found += of_ends(ledger.ends, ledger.partitions)
    return sorted(found, key=lambda violation: violation.kind)


def of_ends(ends: dict[int, Ends], partitions: int) -> Iterator[Violation]:
    """Violations of R19 when all transactions have ended."""
    for partition in range(partitions):
        end = ends[partition]
        if end.last_stable != end.high_watermark:
            text = f"last stable offset {end.last_stable}, high watermark {end.high_watermark}"
            yield Violation(kind=HANGING, partition=partition, text=text)


def _of_transfers(ledger: Ledger) -> Iterator[Violation]:
    """Whether each transfer is there as a whole, or not at all, as its outcome says."""

    def violation(kind: str, text: str) -> Violation:
        return Violation(kind=kind, partition=ALL, text=text)

    seen: dict[Transfer, Counter[int]] = defaultdict(Counter)
    for records in ledger.committed.values():
        for _, leg in records:
            if leg is not None:
                seen[leg.transfer][leg.place] += 1
    for transfer, outcome in ledger.outcomes.items():
        indexes = seen.get(transfer, Counter())
        count = len(postings_of(transfer, ledger.partitions))
        told = f"{transfer.teller} {transfer.number}"
        if outcome is Outcome.OPEN:
            yield violation(UNSETTLED, told)
        elif outcome is Outcome.COMMITTED and not indexes:
            yield violation(LOST, f"{told} was committed")
        elif outcome is Outcome.ABORTED and indexes:
            yield violation(ABORTED_SEEN, f"{told}: legs {sorted(indexes)}")
        if 0 < len(indexes) < count:
            yield violation(TORN, f"{told} ({outcome.value}): legs {sorted(indexes)} of {count}")
        if any(times > 1 for times in indexes.values()):
            yield violation(DUPLICATE, f"{told}: times by leg {dict(indexes)}")


def _of_balance(ledger: Ledger) -> Iterator[Violation]:
    total = sum(
        postings_of(leg.transfer, ledger.partitions)[leg.place].amount
        for records in ledger.committed.values()
        for _, leg in records
        if leg is not None
    )
    if total:
        yield Violation(kind=UNBALANCED, partition=ALL, text=f"the accounts hold {total}")


def _of_log(ledger: Ledger, partition: int) -> Iterator[Violation]:
    def violation(kind: str, text: str) -> Violation:
        return Violation(kind=kind, partition=partition, text=text)

    everything = dict(ledger.everything[partition])
    for offset, leg in ledger.committed[partition]:
        if everything.get(offset) != leg:
            text = f"offset {offset} is {leg} for read_committed, {everything.get(offset)} for all"
            yield violation(VANISHED, text)
    counts: Counter[Leg] = Counter()
    newest: dict[str, int] = {}
    for offset, leg in ledger.everything[partition]:
        if leg is None or leg.transfer not in ledger.outcomes:
            yield violation(FOREIGN_RECORD, f"offset {offset} holds no posting of a teller")
            continue
        counts[leg] += 1
        # Aborted ones, too: an attempt that comes late would be a batch behind its own marker.
        teller, number = leg.transfer
        if number < newest.get(teller, 0):
            text = f"{teller} {number} at {offset} is behind {newest[teller]}"
            yield violation(REORDERED, text)
        newest[teller] = max(number, newest.get(teller, 0))
    for leg, times in counts.items():
        if times > 1:
            yield violation(DUPLICATE, f"{leg} is in the log {times} times")


def _of_reads(ledger: Ledger, partition: int) -> Iterator[Violation]:
    """What the consumer that read during the faults was given, against what there is in the end."""

    def violation(kind: str, text: str) -> Violation:
        return Violation(kind=kind, partition=partition, text=text)

    committed = dict(ledger.committed[partition])
    before = -1
    given: set[Stored] = set()
    for offset, leg in ledger.read[partition]:
        if offset <= before:
            yield violation(BACK, f"offset {offset} after {before}")
        before = max(before, offset)
        given.add((offset, leg))
        if committed.get(offset, ...) != leg:
            outcome = ledger.outcomes.get(leg.transfer) if leg is not None else None
            kind = ABORTED_SEEN if outcome is Outcome.ABORTED else VANISHED
            yield violation(kind, f"the reader was given {leg} at {offset}")
    for record in ledger.committed[partition]:
        if record not in given:
            yield violation(SKIPPED, f"the reader was not given {record[1]} at {record[0]}")
