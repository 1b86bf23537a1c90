import pytest

from highwater.partition.core.producers import (
    ACCEPT,
    INVALID_PRODUCER_EPOCH,
    OUT_OF_ORDER_SEQUENCE,
    SEQUENCE_MAX,
    ProducerEntry,
    ProducerStates,
    last_sequence,
)


def append(
    states: ProducerStates, epoch: int, first: int, last: int, offset: int, pid: int = 7
) -> None:
    count = ((last - first) & SEQUENCE_MAX) + 1
    assert states.check(pid, epoch, first, last) == ACCEPT
    states.record_append(pid, epoch, first, last, offset, offset + count - 1, 1000 + offset)


def test_batches_in_sequence_are_accepted_and_a_gap_is_not() -> None:
    states = ProducerStates()
    append(states, 0, 0, 4, 100)
    append(states, 0, 5, 5, 105)
    assert states.check(7, 0, 7, 7) == OUT_OF_ORDER_SEQUENCE
    assert states.check(7, 0, 6, 9) == ACCEPT


def test_a_duplicate_is_told_its_first_offset_for_five_batches() -> None:
    states = ProducerStates()
    for number in range(6):
        append(states, 0, number * 2, number * 2 + 1, 100 + number * 2)
    for number in range(1, 6):
        assert states.check(7, 0, number * 2, number * 2 + 1) == 100 + number * 2
    # Older than the window: Kafka answers OUT_OF_ORDER_SEQUENCE_NUMBER, too.
    assert states.check(7, 0, 0, 1) == OUT_OF_ORDER_SEQUENCE


def test_a_batch_that_overlaps_without_being_the_same_is_out_of_order() -> None:
    states = ProducerStates()
    append(states, 0, 0, 4, 100)
    assert states.check(7, 0, 0, 3) == OUT_OF_ORDER_SEQUENCE
    assert states.check(7, 0, 1, 4) == OUT_OF_ORDER_SEQUENCE
    assert states.check(7, 0, 4, 4) == OUT_OF_ORDER_SEQUENCE


def test_an_unknown_producer_may_begin_anywhere() -> None:
    states = ProducerStates()
    assert 7 not in states
    append(states, 3, 12345, 12350, 0)
    assert 7 in states
    assert states.check(7, 3, 12351, 12351) == ACCEPT


def test_epochs_only_grow_and_a_new_one_begins_at_zero() -> None:
    states = ProducerStates()
    append(states, 1, 0, 4, 100)
    assert states.check(7, 0, 5, 5) == INVALID_PRODUCER_EPOCH
    assert states.check(7, 0, 0, 4) == INVALID_PRODUCER_EPOCH
    assert states.check(7, 2, 5, 5) == OUT_OF_ORDER_SEQUENCE
    append(states, 2, 0, 0, 105)
    assert states.check(7, 1, 0, 4) == INVALID_PRODUCER_EPOCH
    # The old epoch's batches are no duplicates of the new one's.
    assert states.check(7, 2, 0, 4) == OUT_OF_ORDER_SEQUENCE


def test_sequences_wrap_around_int32() -> None:
    states = ProducerStates()
    assert last_sequence(SEQUENCE_MAX - 1, 3) == 1
    append(states, 0, SEQUENCE_MAX - 1, 1, 100)
    assert states.check(7, 0, SEQUENCE_MAX - 1, 1) == 100
    append(states, 0, 2, 2, 104)
    states = ProducerStates()
    append(states, 0, SEQUENCE_MAX, SEQUENCE_MAX, 100)
    append(states, 0, 0, 3, 101)
    assert states.check(7, 0, SEQUENCE_MAX, SEQUENCE_MAX) == 100


def test_producers_are_independent() -> None:
    states = ProducerStates()
    append(states, 0, 0, 4, 100, pid=1)
    append(states, 0, 0, 4, 105, pid=2)
    assert states.check(1, 0, 0, 4) == 100
    assert states.check(2, 0, 0, 4) == 105
    assert len(states) == 2


def test_silent_producers_expire_unless_in_a_transaction() -> None:
    states = ProducerStates()
    entries = [
        ProducerEntry(producer_id=pid, producer_epoch=0, last_sequence=0, last_offset=0,
                      offset_delta=0, timestamp=timestamp, current_txn_first_offset=txn)
        for pid, timestamp, txn in ((1, 1000, -1), (2, 1000, 0), (3, 1001, -1))
    ]  # fmt: skip
    states.load(entries, now_ms=1000, expiration_ms=500)
    assert states.expire(1500, 500) == 1
    assert [pid in states for pid in (1, 2, 3)] == [False, True, True]
    states.load(entries, now_ms=2000, expiration_ms=500)
    assert [pid in states for pid in (1, 2, 3)] == [False, True, True]


@pytest.mark.parametrize(("first", "last"), [(0, 4), (10, 10), (SEQUENCE_MAX - 2, 2)])
def test_a_snapshot_keeps_the_newest_batch(first: int, last: int) -> None:
    states = ProducerStates()
    append(states, 5, (first - 1) & SEQUENCE_MAX, (first - 1) & SEQUENCE_MAX, 99)
    append(states, 5, first, last, 100)
    entries = list(states.entries())
    restored = ProducerStates()
    restored.load(entries, now_ms=1100, expiration_ms=10_000)
    assert restored.check(7, 5, first, last) == 100
    assert restored.check(7, 5, (last + 1) & SEQUENCE_MAX, last + 1) == ACCEPT
    assert restored.check(7, 4, 0, 0) == INVALID_PRODUCER_EPOCH
    assert restored.check(7, 5, (first - 1) & SEQUENCE_MAX, (first - 1) & SEQUENCE_MAX) == (
        OUT_OF_ORDER_SEQUENCE
    )
    assert list(restored.entries()) == entries


def test_an_entry_without_batches_expects_sequence_zero() -> None:
    states = ProducerStates()
    entry = ProducerEntry(
        producer_id=7,
        producer_epoch=3,
        last_sequence=-1,
        last_offset=-1,
        offset_delta=0,
        timestamp=5,
    )
    states.load([entry], now_ms=6, expiration_ms=100)
    assert states.check(7, 3, 1, 1) == OUT_OF_ORDER_SEQUENCE
    assert states.check(7, 3, 0, 0) == ACCEPT
    assert list(states.entries()) == [entry]
    states.clear()
    assert len(states) == 0
