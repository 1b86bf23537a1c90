"""The checker of copies finds what it is for, in histories that are made bad by hand."""

from __future__ import annotations

from tests.robustness.faults.checker import (
    COMMIT_LOST,
    DUPLICATE,
    FOREIGN_RECORD,
    LOST,
    REORDERED,
    VANISHED,
)
from tests.robustness.faults.history import FOREIGN, value_of
from tests.robustness.faults.transactions.copies import (
    INCOMPLETE,
    CopyHistory,
    copy_in,
    violations,
)
from tests.robustness.faults.transactions.ledger import Ends
from tests.robustness.faults.transactions.ledger_checker import HANGING, TORN

COUNT = 6


def good() -> CopyHistory:
    """Two partitions, copied to the end; the first two copies were aborted once."""
    history = CopyHistory(2)
    for partition in range(2):
        history.inputs[partition] = [(n, n) for n in range(COUNT)]
        history.committed[partition] = [(n + 3, n) for n in range(COUNT)]
        history.everything[partition] = [(0, 0), (1, 1), *history.committed[partition]]
        history.group[partition] = COUNT
        history.ends[partition] = Ends(COUNT + 4, COUNT + 4)
    return history


def kinds(history: CopyHistory) -> set[str]:
    return {violation.kind for violation in violations(history)}


def add(history: CopyHistory, offset: int, number: int) -> None:
    """A copy at the end of partition 0."""
    history.committed[0].append((offset, number))
    history.everything[0].append((offset, number))


def test_a_good_history_has_no_violations() -> None:
    assert violations(good()) == []


def test_a_copy_that_is_missing() -> None:
    history = good()
    del history.committed[1][2]
    assert kinds(history) == {LOST}


def test_a_record_that_was_copied_twice() -> None:
    history = good()
    add(history, 20, 5)
    assert kinds(history) == {DUPLICATE}


def test_copies_out_of_order() -> None:
    history = good()
    history.committed[0] = [(3, 1), (4, 0), *history.committed[0][2:]]
    history.everything[0] = history.committed[0]
    assert kinds(history) == {REORDERED}


def test_a_copy_of_nothing() -> None:
    history = good()
    add(history, 20, FOREIGN)
    assert kinds(history) == {FOREIGN_RECORD}
    history = good()
    add(history, 20, COUNT)
    assert kinds(history) == {FOREIGN_RECORD}


def test_copies_without_their_offsets() -> None:
    history = good()
    history.group[0] = 4
    assert kinds(history) == {INCOMPLETE, TORN}


def test_offsets_without_their_copies() -> None:
    history = good()
    del history.committed[0][4:]
    assert kinds(history) == {LOST}


def test_a_group_that_stopped() -> None:
    history = good()
    history.group[0] = 4
    del history.committed[0][4:]
    assert kinds(history) == {INCOMPLETE}
    del history.group[1]
    history.committed[1].clear()
    assert kinds(history) == {INCOMPLETE}


def test_a_group_behind_the_end() -> None:
    history = good()
    history.group[0] = COUNT + 1
    assert kinds(history) == {COMMIT_LOST}


def test_a_copy_that_is_not_in_the_log() -> None:
    history = good()
    history.everything[1].pop()
    assert kinds(history) == {VANISHED}


def test_a_transaction_that_hangs() -> None:
    history = good()
    history.ends[1] = Ends(0, COUNT + 4)
    assert kinds(history) == {HANGING}


def test_copies_tell_their_records() -> None:
    value = b"copy of " + value_of(1, 17)
    assert copy_in(1, value, b"copy of ") == 17
    assert copy_in(0, value, b"copy of ") == FOREIGN
    assert copy_in(1, value_of(1, 17), b"copy of ") == FOREIGN
    assert copy_in(1, value_of(1, 17), b"") == 17
    assert copy_in(1, None, b"") == FOREIGN
