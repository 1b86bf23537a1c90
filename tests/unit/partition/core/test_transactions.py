"""What is open, what is stable, and what an index of aborted transactions gets."""

from highwater.partition.core.producer_entry import NO_TRANSACTION
from highwater.partition.core.transactions import (
    ENDED_KEPT_MIN,
    AbortedTransaction,
    Transactions,
)


def test_without_transactions_everything_committed_is_stable():
    transactions = Transactions()
    assert not transactions.seen
    assert transactions.last_stable_offset(7) == 7
    assert transactions.is_known(0)


def test_the_first_open_transaction_holds_the_stable_offset_up():
    transactions = Transactions()
    transactions.begin(5, 10)
    transactions.begin(6, 12)
    assert transactions.last_stable_offset(8) == 8, "it begins behind the high watermark"
    assert transactions.last_stable_offset(15) == 10
    transactions.end(5, 15, 0)
    assert transactions.last_stable_offset(15) == 10, "its marker is not committed"
    assert transactions.last_stable_offset(16) == 12
    transactions.end(6, 16, 0)
    assert transactions.last_stable_offset(17) == 17


def test_a_marker_that_is_not_committed_holds_up_what_began_before_it():
    transactions = Transactions()
    for producer_id, first in ((5, 10), (6, 11), (7, 12)):
        transactions.begin(producer_id, first)
    for producer_id, marker in ((6, 20), (5, 21), (7, 22)):
        transactions.end(producer_id, marker, 0)
    stable = [transactions.last_stable_offset(mark) for mark in (20, 21, 22, 23)]
    assert stable == [10, 10, 12, 23]


def test_an_entry_tells_how_stable_the_log_is_behind_the_marker():
    transactions = Transactions()
    transactions.begin(5, 10)
    transactions.begin(6, 12)
    assert transactions.end(6, 14, 3) == AbortedTransaction(6, 12, 14, 10)
    assert transactions.end(5, 15, 3) == AbortedTransaction(5, 10, 15, 16)
    assert transactions.end(5, 16, 4) is None, "nothing is open"
    assert transactions.coordinator_epoch(5) == 4


def test_a_producer_whose_transaction_begins_again_counts_from_there():
    transactions = Transactions()
    transactions.begin(5, 10)
    transactions.end(5, 11, 0)
    transactions.begin(5, 12)
    assert transactions.last_stable_offset(13) == 12


def test_what_a_snapshot_has_of_a_producer():
    transactions = Transactions()
    transactions.begin(5, 10)
    transactions.begin(6, 12)
    transactions.end(6, 14, 3)
    assert transactions.producers() == {5, 6}
    again = Transactions()
    for producer_id in (6, 5, 7):
        again.load(producer_id, transactions.packed(producer_id))
    again.loaded(15)
    assert transactions.packed(7) == NO_TRANSACTION
    assert again.open == {5: 10}
    assert again.coordinator_epoch(6) == 3
    assert again.last_stable_offset(20) == 10


def test_a_snapshot_does_not_tell_what_has_just_ended():
    transactions = Transactions()
    transactions.load(6, Transactions().packed(6))
    transactions.loaded(15)
    assert transactions.is_known(0), "a snapshot without transactions hides none"
    transactions.end(6, 14, 3)
    transactions.loaded(15)
    assert not transactions.is_known(14)
    assert transactions.is_known(15)
    transactions.clear()
    assert transactions.is_known(0)


def test_memory_is_that_of_what_is_open_or_not_committed():
    transactions = Transactions()
    for number in range(1000):
        transactions.begin(5, 2 * number)
        transactions.end(5, 2 * number + 1, 0)
        transactions.last_stable_offset(2 * number + 2)
    assert not transactions.open
    assert len(transactions.ended) <= 1
    transactions.forget(5)
    assert transactions.producers() == set()


def test_transactions_behind_one_that_stays_open_take_no_more_and_more_memory():
    transactions = Transactions()
    transactions.begin(5, 0)
    for offset in range(1, 10 * ENDED_KEPT_MIN, 2):
        transactions.begin(6, offset)
        transactions.end(6, offset + 1, 0)
    assert len(transactions._firsts) <= 2 * len(transactions.open) + ENDED_KEPT_MIN
    transactions.begin(7, 20 * ENDED_KEPT_MIN)
    assert transactions.last_stable_offset(30 * ENDED_KEPT_MIN) == 0
    transactions.end(5, 25 * ENDED_KEPT_MIN, 0)
    assert transactions.last_stable_offset(30 * ENDED_KEPT_MIN) == 20 * ENDED_KEPT_MIN


def test_what_has_ended_is_forgotten_once_it_is_told_to_be_committed():
    transactions = Transactions()
    for offset in range(0, 100, 2):
        transactions.begin(6, offset)
        transactions.end(6, offset + 1, 0)
        transactions.commit_to(offset)
    assert len(transactions.ended) <= 2
    assert transactions.last_stable_offset(98) == 98
    assert transactions.last_stable_offset(99) == 98, "the last marker is at 99"
