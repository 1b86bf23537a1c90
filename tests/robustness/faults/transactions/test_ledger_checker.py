"""The checker of banks finds what it is for, in histories that are made bad by hand."""

from __future__ import annotations

import pytest

from tests.robustness.faults.checker import (
    BACK,
    DUPLICATE,
    FOREIGN_RECORD,
    LOST,
    REORDERED,
    UNSETTLED,
    VANISHED,
)
from tests.robustness.faults.transactions.ledger import (
    Ends,
    Ledger,
    Leg,
    Outcome,
    Transfer,
    leg_in,
    postings_of,
    value_of,
)
from tests.robustness.faults.transactions.ledger_checker import (
    ABORTED_SEEN,
    HANGING,
    SKIPPED,
    TORN,
    UNBALANCED,
    violations,
)

PARTITIONS = 3
COUNT = 9
ABORTED = (2, 6)


def good() -> Ledger:
    """Nine transfers of one teller, two of them aborted, each followed by its markers."""
    ledger = Ledger(PARTITIONS)
    next_offsets = dict.fromkeys(range(PARTITIONS), 0)
    for number in range(COUNT):
        transfer = Transfer("ann", number)
        aborted = number in ABORTED
        ledger.outcomes[transfer] = Outcome.ABORTED if aborted else Outcome.COMMITTED
        for index, posting in enumerate(postings_of(transfer, PARTITIONS)):
            record = next_offsets[posting.partition], Leg(transfer, index)
            next_offsets[posting.partition] += 2
            ledger.everything[posting.partition].append(record)
            if not aborted:
                ledger.committed[posting.partition].append(record)
                ledger.read[posting.partition].append(record)
    ledger.ends = {p: Ends(offset, offset) for p, offset in next_offsets.items()}
    return ledger


def kinds(ledger: Ledger) -> set[str]:
    return {violation.kind for violation in violations(ledger)}


def show(ledger: Ledger, number: int, *, legs: int = PARTITIONS) -> None:
    """Shows the first legs of a transfer, as if it were committed, to everybody."""
    for partition, records in ledger.everything.items():
        for record in records:
            leg = record[1]
            if leg is not None and leg.transfer.number == number and leg.place < legs:
                for shown in (ledger.committed[partition], ledger.read[partition]):
                    shown.append(record)
                    shown.sort(key=lambda one: one[0])


def hide(ledger: Ledger, number: int, *, legs: int = PARTITIONS) -> None:
    """Takes the first legs of a transfer out of what is committed."""
    for shown in (ledger.committed, ledger.read):
        for records in shown.values():
            records[:] = [
                record
                for record in records
                if record[1] is None
                or record[1].transfer.number != number
                or record[1].place >= legs
            ]


def test_a_good_history_has_no_violations() -> None:
    assert violations(good()) == []


def test_a_committed_transfer_that_is_gone() -> None:
    ledger = good()
    hide(ledger, 4)
    assert kinds(ledger) == {LOST}


def test_a_part_of_a_committed_transfer() -> None:
    ledger = good()
    hide(ledger, 4, legs=1)
    assert kinds(ledger) == {TORN, UNBALANCED}


@pytest.mark.parametrize("number", [0, 7])
def test_one_of_many_legs_is_missing(number: int) -> None:
    ledger = good()
    hide(ledger, number, legs=1)
    assert kinds(ledger) == {TORN, UNBALANCED}


def test_an_aborted_transfer_that_is_shown() -> None:
    ledger = good()
    show(ledger, 2)
    assert kinds(ledger) == {ABORTED_SEEN}


def test_a_part_of_an_aborted_transfer() -> None:
    ledger = good()
    show(ledger, 6, legs=1)
    assert kinds(ledger) == {ABORTED_SEEN, TORN, UNBALANCED}


def test_an_unknown_outcome_may_be_either_but_is_whole() -> None:
    ledger = good()
    ledger.outcomes[Transfer("ann", 4)] = Outcome.UNKNOWN
    assert kinds(ledger) == set()
    hide(ledger, 4)
    assert kinds(ledger) == set()
    ledger = good()
    ledger.outcomes[Transfer("ann", 6)] = Outcome.UNKNOWN
    show(ledger, 6, legs=1)
    assert kinds(ledger) == {TORN, UNBALANCED}


def test_a_transfer_without_an_outcome() -> None:
    ledger = good()
    ledger.outcomes[Transfer("ann", 9)] = Outcome.OPEN
    assert kinds(ledger) == {UNSETTLED}


def test_a_committed_record_that_is_there_twice() -> None:
    ledger = good()
    offset, leg = ledger.committed[1][-1]
    for shown in (ledger.committed, ledger.read, ledger.everything):
        shown[1].append((offset + 10, leg))
    assert kinds(ledger) == {DUPLICATE, UNBALANCED}


def test_an_aborted_record_that_is_in_the_log_twice() -> None:
    ledger = good()
    leg = Leg(Transfer("ann", COUNT), 0)
    ledger.outcomes[leg.transfer] = Outcome.ABORTED
    ledger.everything[0] += [(100, leg), (101, leg)]
    assert kinds(ledger) == {DUPLICATE}


def test_a_late_batch_of_an_aborted_transfer() -> None:
    ledger = good()
    leg = Leg(Transfer("ann", 2), 0)
    partition = postings_of(leg.transfer, PARTITIONS)[0].partition
    ledger.everything[partition].remove(
        next(record for record in ledger.everything[partition] if record[1] == leg)
    )
    ledger.everything[partition].append((100, leg))
    assert kinds(ledger) == {REORDERED}


def test_a_record_of_nobody() -> None:
    ledger = good()
    ledger.everything[0].append((100, None))
    assert kinds(ledger) == {FOREIGN_RECORD}
    ledger = good()
    ledger.everything[0].append((100, Leg(Transfer("bob", 0), 0)))
    assert kinds(ledger) == {FOREIGN_RECORD}


def test_what_is_committed_is_in_the_log() -> None:
    ledger = good()
    ledger.everything[0].pop()
    assert kinds(ledger) == {VANISHED}


def test_the_reader_was_given_what_is_not_committed() -> None:
    ledger = good()
    leg = Leg(Transfer("ann", COUNT), 0)
    ledger.everything[0].append((100, leg))
    ledger.read[0].append((100, leg))
    ledger.outcomes[leg.transfer] = Outcome.UNKNOWN
    assert kinds(ledger) == {VANISHED}
    ledger.outcomes[leg.transfer] = Outcome.ABORTED
    assert kinds(ledger) == {ABORTED_SEEN}


def test_the_reader_was_not_given_a_committed_record() -> None:
    ledger = good()
    del ledger.read[2][1]
    assert kinds(ledger) == {SKIPPED}


def test_the_reader_went_back() -> None:
    ledger = good()
    ledger.read[2].append(ledger.read[2][0])
    assert kinds(ledger) == {BACK}


def test_a_transaction_that_hangs() -> None:
    ledger = good()
    ledger.ends[1] = Ends(2, ledger.ends[1].high_watermark)
    assert kinds(ledger) == {HANGING}


def test_postings_sum_up_to_nothing_over_several_partitions() -> None:
    for number in range(200):
        postings = postings_of(Transfer("ann", number), PARTITIONS)
        assert sum(posting.amount for posting in postings) == 0
        assert len({posting.partition for posting in postings}) == len(postings) >= 2


def test_values_tell_their_legs() -> None:
    for number in range(20):
        transfer = Transfer("ann", number)
        for index, posting in enumerate(postings_of(transfer, PARTITIONS)):
            leg = Leg(transfer, index)
            value = value_of(leg, PARTITIONS)
            assert leg_in(posting.partition, value, PARTITIONS) == leg
            assert leg_in(posting.partition + 1, value, PARTITIONS) is None
            assert leg_in(posting.partition, value[:-1], PARTITIONS) is None
    assert leg_in(0, None, PARTITIONS) is None
    assert leg_in(0, b"", PARTITIONS) is None
    assert leg_in(0, b"ann:1:9:", PARTITIONS) is None
