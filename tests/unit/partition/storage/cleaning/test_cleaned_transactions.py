"""What a pass may drop: aborted batches, and markers of what is gone."""

import pytest

from highwater.kafka.errors import RecordsError
from highwater.kafka.records.batch import RecordBatchView
from highwater.kafka.records.builder import RecordBatchBuilder, end_transaction_marker
from highwater.partition.core.transactions import AbortedTransaction
from highwater.partition.storage.cleaning.cleaned_transactions import CleanedTransactions


def view(data):
    return RecordBatchView(data, 0, len(data))


def batch(offset, producer_id, *, transactional=True):
    builder = RecordBatchBuilder(
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=transactional,
    )
    builder.append(key=b"k", value=b"v", timestamp_ms=1)
    return view(builder.build())


def marker(offset, producer_id, *, commit):
    return view(
        end_transaction_marker(
            commit=commit,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=1,
            base_offset=offset,
        )
    )


def test_batches_of_aborted_transactions_go_and_their_marker_stays_for_now():
    entry = AbortedTransaction(5, 1, 4, 5)
    transactions = CleanedTransactions([entry])
    assert not transactions.read(batch(0, 5, transactional=False))
    assert transactions.read(batch(1, 5))
    assert not transactions.read(batch(2, 6))
    assert transactions.read(batch(3, 5))
    assert not transactions.read(marker(4, 5, commit=False))
    assert transactions.kept == [entry]
    assert not transactions.read(batch(5, 5)), "another transaction"


def test_markers_without_a_batch_before_them_go():
    transactions = CleanedTransactions([AbortedTransaction(5, 1, 4, 5)])
    assert transactions.read(marker(4, 5, commit=False))
    assert transactions.read(marker(5, 5, commit=False)), "nothing was open"
    assert transactions.read(marker(6, 6, commit=True))
    assert transactions.kept == []


def test_a_commit_stays_while_a_batch_is_left():
    transactions = CleanedTransactions([])
    transactions.read(batch(0, 5))
    assert not transactions.read(marker(1, 5, commit=True))
    assert transactions.read(marker(2, 5, commit=True))


def test_transactions_that_ended_before_the_first_batch_do_not_count():
    entries = [AbortedTransaction(5, 1, 4, 5), AbortedTransaction(5, 8, 12, 13)]
    transactions = CleanedTransactions(entries, 5)
    assert not transactions.read(batch(5, 5)), "committed, though an aborted one began before"
    assert not transactions.read(marker(6, 5, commit=True))
    assert transactions.read(batch(8, 5))


def test_a_control_batch_without_its_record_goes():
    empty = bytearray(marker(4, 5, commit=False).buf[:61])
    empty[57:61] = bytes(4)
    assert CleanedTransactions([]).read(view(empty))


def test_an_unreadable_marker():
    data = bytearray(marker(4, 5, commit=False).buf)
    data[62:] = b"\xff" * (len(data) - 62)
    with pytest.raises(RecordsError):
        CleanedTransactions([]).read(view(data))
