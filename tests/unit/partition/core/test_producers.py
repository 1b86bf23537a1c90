import random
import tracemalloc
from dataclasses import replace

import pytest

from highwater.model.transactions import TransactionMarker
from highwater.partition.core.producer_budget import ProducerBudget
from highwater.partition.core.producer_entry import ProducerEntry
from highwater.partition.core.producers import (
    ACCEPT,
    COORDINATOR_FENCED,
    EXPIRED_AT_ONCE,
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    OUT_OF_ORDER_SEQUENCE,
    SEQUENCE_MAX,
    ProducerStates,
    last_sequence,
)


def append(
    states: ProducerStates, epoch: int, first: int, last: int, offset: int, pid: int = 7
) -> None:
    count = ((last - first) & SEQUENCE_MAX) + 1
    assert states.check(pid, epoch, first, last) == ACCEPT
    assert states.append(pid, epoch, first, count - 1, offset, 1000 + offset) == ACCEPT


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


def test_a_known_batch_has_its_timestamp() -> None:
    states = ProducerStates()
    for number in range(6):
        assert states.append(1, 0, number, 0, 10 + number, 500 + number) == ACCEPT
    assert [states.known_at(1, offset) for offset in (10, 11, 15, 16)] == [-1, 501, 505, -1]
    assert states.known_at(2, 11) == -1


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
    packed = b"".join(entry.packed() for entry in entries)
    states.load(packed, now_ms=1000, expiration_ms=500)
    assert list(states.expire(1500, 500)) == [1]
    assert [pid in states for pid in (1, 2, 3)] == [False, True, True]
    states.load(packed, now_ms=2000, expiration_ms=500)
    assert [pid in states for pid in (1, 2, 3)] == [False, True, True]


def test_a_producer_does_not_expire_before_its_marker_is_committed() -> None:
    states = ProducerStates()
    transactional(states, 0, 0, 10)
    states.record_marker(5, 0, 0, 11, 1000)
    states.transactions.commit_to(11)
    assert list(states.expire(10_000, 500)) == [0]
    states.transactions.commit_to(12)
    assert list(states.expire(10_000, 500)) == [1]


def restarted(states: ProducerStates, offset: int) -> ProducerStates:
    """What a start has of a snapshot at the offset, long after."""
    made = ProducerStates(limit=8)
    made.load(b"".join(states.packed()), now_ms=10_000, expiration_ms=500)
    made.transactions.loaded(offset)
    return made


def test_starts_after_producers_have_expired_wait_until_their_markers_are_committed() -> None:
    states = ProducerStates()
    transactional(states, 0, 0, 10)
    states.record_marker(5, 0, 0, 11, 1000)
    restored = restarted(restarted(states, 12), 12)
    assert not restored.transactions.is_known(11)
    assert restored.transactions.is_known(12)
    assert list(restored.expire(10_000, 500)) == [0]
    restored.transactions.commit_to(12)
    assert list(restored.expire(10_000, 500)) == [1]


def test_a_flood_of_producers_leaves_the_one_that_tells_of_an_uncommitted_marker() -> None:
    states = ProducerStates(limit=8)
    transactional(states, 0, 0, 10)
    states.record_marker(5, 0, 0, 11, 1000)
    states.transactions.commit_to(11)
    for pid in range(100, 200):
        append(states, 0, 0, 0, pid, pid)
    assert (len(states), states.evictable) == (8, 7)
    assert not restarted(states, 200).transactions.is_known(11)
    assert not restarted(restarted(states, 200), 200).transactions.is_known(199)
    states.transactions.commit_to(12)
    assert states.evictable == 8
    for pid in range(200, 216):
        append(states, 0, 0, 0, pid, pid)
    assert 5 not in states
    assert len(states) == 8


def test_a_flood_ends_where_only_such_a_producer_is_left() -> None:
    states = ProducerStates()
    transactional(states, 0, 0, 10)
    states.record_marker(5, 0, 0, 11, 1000)
    assert (states.evictable, states.evict(10), len(states)) == (0, 0, 1)
    budget = ProducerBudget(0)
    budget.adopt(states)
    assert budget.count == 1


def test_only_the_last_marker_keeps_its_producer() -> None:
    """There is always a marker under way in a log with many transactions: others have to expire."""
    states = ProducerStates()
    for pid in (5, 6, 7):
        states.append_transactional(pid, 0, 0, 0, 2 * pid, 1000, may_begin=True)
        states.record_marker(pid, 0, 0, 2 * pid + 1, 1000)
    assert sum(states.expire(10_000, 500)) == 2
    assert ids(states) == [7]


@pytest.mark.parametrize(("first", "last"), [(0, 4), (10, 10), (SEQUENCE_MAX - 2, 2)])
def test_a_snapshot_keeps_the_newest_batch(first: int, last: int) -> None:
    states = ProducerStates()
    append(states, 5, (first - 1) & SEQUENCE_MAX, (first - 1) & SEQUENCE_MAX, 99)
    append(states, 5, first, last, 100)
    entries = list(states.entries())
    restored = ProducerStates()
    restored.load(b"".join(entry.packed() for entry in entries), now_ms=1100, expiration_ms=10_000)
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
    states.load(entry.packed(), now_ms=6, expiration_ms=100)
    assert states.check(7, 3, 1, 1) == OUT_OF_ORDER_SEQUENCE
    assert states.check(7, 3, 0, 0) == ACCEPT
    assert list(states.entries()) == [entry]
    states.clear()
    assert len(states) == 0


def ids(states: ProducerStates) -> list[int]:
    return [entry.producer_id for entry in states.entries()]


def test_compaction_is_told_of_the_newest_batches() -> None:
    states = ProducerStates()
    append(states, 0, 0, 4, 100, pid=1)
    append(states, 0, 0, 0, 105, pid=2)
    append(states, 0, 5, 6, 106, pid=1)
    assert states.last_offsets() == {1: 107, 2: 105}


def test_a_batch_that_is_refused_changes_nothing() -> None:
    states = ProducerStates()
    append(states, 1, 0, 4, 100)
    before = states.packed()
    assert states.append(7, 1, 6, 0, 105, 2000) == OUT_OF_ORDER_SEQUENCE
    assert states.append(7, 0, 5, 0, 105, 2000) == INVALID_PRODUCER_EPOCH
    assert states.append(7, 1, 0, 4, 105, 2000) == 100
    assert states.packed() == before


def test_an_epoch_that_a_replica_is_told_takes_the_place_of_the_old_one() -> None:
    states = ProducerStates()
    states.record_append(7, 1, 4, 100, 4, 1000)
    states.record_append(7, 2, 9, 105, 0, 1001)
    assert [entry.producer_epoch for entry in states.history()] == [2]
    assert states.check(7, 2, 10, 12) == ACCEPT


def test_what_is_remembered_is_bounded() -> None:
    """The finding: 324 bytes for each invented producer id, for a day."""
    states = ProducerStates(limit=1000)
    for pid in range(3000):
        append(states, 0, 0, 0, pid, pid=pid)
    assert len(states) == 1000
    assert states.evicted == 2000
    tracemalloc.start()
    try:
        states = ProducerStates(limit=50_000)
        for pid in range(1 << 40, (1 << 40) + 100_000):
            assert states.append(pid, 0, 0, 0, pid, 1 << 40) == ACCEPT
        nbytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(states) == 50_000
    assert nbytes / 50_000 < 150, "324 before"


def test_the_longest_silent_is_evicted_and_may_then_begin_anywhere() -> None:
    states = ProducerStates(limit=3)
    for number, pid in enumerate((1, 2, 3)):
        append(states, 0, 0, 0, number, pid=pid)
    append(states, 0, 1, 1, 3, pid=1)
    append(states, 0, 0, 0, 4, pid=4)
    assert sorted(ids(states)) == [1, 3, 4]
    # As in Kafka after producer.id.expiration.ms: neither unknown nor out of order (KIP-360).
    append(states, 0, 5, 5, 5, pid=2)
    assert sorted(ids(states)) == [1, 2, 4]
    assert states.check(1, 0, 1, 1) == 3


def test_a_producer_that_writes_survives_any_number_of_others() -> None:
    states = ProducerStates(limit=100)
    for number in range(1000):
        append(states, 0, number, number, number, pid=7)
        for other in range(50):
            append(states, 0, 0, 0, 0, pid=1000 + number * 50 + other)
    assert states.check(7, 0, 999, 999) == 999
    assert len(states) == 100


def test_an_open_transaction_keeps_its_producer() -> None:
    entry = ProducerEntry(producer_id=1, producer_epoch=0, last_sequence=0, last_offset=0,
                          offset_delta=0, timestamp=1000, coordinator_epoch=3,
                          current_txn_first_offset=0)  # fmt: skip
    states = ProducerStates(limit=3)
    states.load(entry.packed(), now_ms=1000, expiration_ms=500)
    for pid in range(2, 20):
        append(states, 0, 0, 0, pid, pid=pid)
    assert sorted(ids(states)) == [1, 18, 19]
    assert next(e for e in states.entries() if e.producer_id == 1) == entry
    states.clear()
    for pid in range(6):
        states.load(replace(entry, producer_id=pid).packed(), now_ms=1000, expiration_ms=500)
    assert sorted(ids(states)) == list(range(6)), "rather too many than one without its marker"


def test_replicas_evict_alike_and_a_snapshot_between_changes_nothing() -> None:
    leader, follower = ProducerStates(limit=50), ProducerStates(limit=50)
    choose = random.Random(7)
    sequences: dict[int, int] = {}
    for offset in range(5000):
        pid = choose.randrange(200)
        sequence = sequences[pid] = sequences.get(pid, -1) + 1
        assert leader.append(pid, 0, sequence, 0, offset, offset) == ACCEPT
        follower.record_append(pid, 0, sequence, offset, 0, offset)
        if offset == 2500:
            assert sorted(leader.packed()) == sorted(follower.packed())
            restored = ProducerStates(limit=50)
            restored.load(b"".join(leader.packed()), now_ms=0, expiration_ms=10_000)
            assert sorted(restored.packed()) == sorted(leader.packed())
            follower = restored
    # Whoever was restored may remember others, but of nobody anything else than the log's end.
    for entry in follower.entries():
        assert entry.last_sequence == sequences[entry.producer_id]
    both = set(leader.packed()) & set(follower.packed())
    assert len(both) > 40


def test_expiration_goes_on_while_producers_come_and_go() -> None:
    states = ProducerStates()
    for pid in range(2500):
        states.record_append(pid, 0, 0, pid, 0, 1000)
    steps = states.expire(2000, 500)
    assert next(steps) == EXPIRED_AT_ONCE
    states.record_append(2400, 0, 1, 3000, 0, 1900)
    states.evict(10)
    assert sum(steps) == 2500 - EXPIRED_AT_ONCE - 1 - 10
    assert ids(states) == [2400]


# ---- transactions ----


def marker(producer_id=5, epoch=0, *, coordinator_epoch=0, version=0, committed=True):
    return TransactionMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        committed=committed,
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
    )


def transactional(states, epoch, sequence, offset, *, may_begin=True):
    return states.append_transactional(5, epoch, sequence, 0, offset, 1000, may_begin=may_begin)


def test_a_transaction_begins_only_where_it_may() -> None:
    states = ProducerStates()
    assert transactional(states, 0, 0, 10, may_begin=False) == INVALID_TXN_STATE
    assert 5 not in states
    assert transactional(states, 0, 0, 10) == ACCEPT
    assert states.in_transaction(5, 0)
    assert transactional(states, 0, 1, 11, may_begin=False) == ACCEPT
    assert transactional(states, 0, 0, 12, may_begin=False) == 10, "it is in the log already"
    assert transactional(states, 1, 0, 12, may_begin=False) == INVALID_TXN_STATE, "a newer epoch"
    assert transactional(states, 0, 3, 12) == OUT_OF_ORDER_SEQUENCE
    assert states.transactions.open == {5: 10}


def test_who_has_to_be_asked_for() -> None:
    states = ProducerStates()
    assert states.has_to_ask(5, 0, 0, 0)
    verification = states.verifications.asked(5, 0, 0)
    assert states.has_to_ask(5, 0, 0, 0), "it was only asked"
    assert states.verifications.grant(5, verification)
    assert not states.has_to_ask(5, 0, 0, 0)
    assert states.has_to_ask(5, 1, 0, 0), "granted in another epoch"
    assert transactional(states, 0, 0, 10, may_begin=False) == ACCEPT
    assert not states.has_to_ask(5, 0, 1, 1), "it is open"
    assert states.has_to_ask(5, 1, 0, 0), "in another epoch"
    assert states.record_marker(5, 0, 0, 11, 1000, committed=True) is None
    assert not states.has_to_ask(5, 0, 0, 0), "it is in the log"
    assert states.has_to_ask(5, 0, 1, 1), "the next transaction"
    assert states.has_to_ask(5, 0, 7, 7), "out of order: the coordinator's answer comes first"


def test_a_batch_that_comes_late_does_not_keep_out_the_one_that_is_next() -> None:
    """From a gateway that stood still, say: its client has sent the batch by another way long since."""
    states = ProducerStates()
    for sequence in range(10):
        assert transactional(states, 0, sequence, 10 + sequence) == ACCEPT
    assert states.record_marker(5, 0, 0, 20, 1000, committed=True) is None
    assert not states.has_to_ask(5, 0, 2, 2)
    assert transactional(states, 0, 2, 21, may_begin=False) == OUT_OF_ORDER_SEQUENCE
    assert states.has_to_ask(5, 0, 10, 10)
    verification = states.verifications.asked(5, 0, 10)
    assert not states.has_to_ask(5, 0, 2, 2)
    assert states.verifications.grant(5, verification)
    assert transactional(states, 0, 2, 21, may_begin=False) == OUT_OF_ORDER_SEQUENCE
    assert transactional(states, 0, 10, 21, may_begin=False) == ACCEPT


def test_other_batches_are_refused_while_a_transaction_is_open() -> None:
    states = ProducerStates()
    transactional(states, 0, 0, 10)
    assert states.append(5, 0, 1, 0, 11, 1000) == INVALID_TXN_STATE
    assert states.append(5, 1, 0, 0, 11, 1000) == INVALID_TXN_STATE
    assert states.append(5, 0, 0, 0, 11, 1000) == 10, "a batch in the log is known all the same"
    assert states.append(6, 0, 0, 0, 11, 1000) == ACCEPT
    states.record_marker(5, 0, 0, 12, 1000)
    assert states.append(5, 0, 1, 0, 13, 1000) == ACCEPT


def test_offsets_of_groups_have_no_sequence() -> None:
    states = ProducerStates()
    assert transactional(states, 3, -1, 10) == ACCEPT
    assert transactional(states, 3, -1, 11) == ACCEPT
    assert transactional(states, 2, -1, 12) == INVALID_PRODUCER_EPOCH
    [entry] = states.entries()
    assert (entry.last_sequence, entry.last_offset, entry.current_txn_first_offset) == (-1, 11, 10)


@pytest.mark.parametrize(
    ("version", "epoch", "verdict"),
    [
        (0, 3, INVALID_PRODUCER_EPOCH),
        (0, 4, ACCEPT),
        (1, 4, ACCEPT),
        (2, 4, INVALID_PRODUCER_EPOCH),
        (2, 5, ACCEPT),
    ],
)
def test_the_epoch_of_a_marker(version: int, epoch: int, verdict: int) -> None:
    states = ProducerStates()
    transactional(states, 4, 0, 10)
    assert states.check_marker(marker(epoch=epoch, version=version)) == verdict


def test_a_marker_that_comes_again_is_accepted_and_an_older_one_is_not() -> None:
    states = ProducerStates()
    transactional(states, 4, 0, 10)
    states.record_marker(5, 5, 0, 11, 1000)
    assert states.check_marker(marker(epoch=5, version=2)) == ACCEPT
    assert states.check_marker(marker(epoch=4, version=2)) == INVALID_PRODUCER_EPOCH
    transactional(states, 5, 0, 12)
    assert states.check_marker(marker(epoch=5, version=2)) == INVALID_PRODUCER_EPOCH


def test_markers_of_former_coordinators_are_fenced() -> None:
    states = ProducerStates()
    assert states.check_marker(marker(coordinator_epoch=0)) == ACCEPT, "an unknown producer"
    assert states.record_marker(5, 0, 7, 10, 1000) is None
    assert states.check_marker(marker(coordinator_epoch=6)) == COORDINATOR_FENCED
    assert states.check_marker(marker(coordinator_epoch=7)) == ACCEPT


def test_sequences_behind_a_marker() -> None:
    states = ProducerStates()
    transactional(states, 4, 0, 10)
    aborted = states.record_marker(5, 4, 0, 11, 2000)
    assert aborted is not None
    assert (aborted.first_offset, aborted.last_offset) == (10, 11)
    assert states.check(5, 4, 1, 1) == ACCEPT, "of the same epoch they go on"
    states.record_marker(5, 5, 0, 12, 2000)
    assert states.check(5, 5, 1, 1) == OUT_OF_ORDER_SEQUENCE
    assert states.check(5, 4, 1, 1) == INVALID_PRODUCER_EPOCH
    assert states.marked_epochs() == {5: 5}
    assert states.last_offsets() == {}
    assert states.append(5, 5, 0, 0, 13, 3000) == ACCEPT
    assert states.marked_epochs() == {}
    assert states.last_offsets() == {5: 13}
    for sequence in range(1, 5):
        assert states.append(5, 5, sequence, 0, 13 + sequence, 3000) == ACCEPT
    assert states.check(5, 5, 0, 0) == 13, "the marker takes no batch's place"


def test_a_snapshot_has_open_transactions_and_what_markers_tell() -> None:
    states = ProducerStates()
    transactional(states, 4, 0, 10)
    states.record_append(6, 0, 0, 11, 0, 1000)
    states.record_marker(7, 2, 9, 12, 1000)
    again = ProducerStates()
    again.load(b"".join(states.packed()), now_ms=1000, expiration_ms=10_000)
    assert again.transactions.open == {5: 10}
    assert again.check_marker(marker(7, 2, coordinator_epoch=8)) == COORDINATOR_FENCED
    assert list(again.entries()) == list(states.entries())
    old = ProducerStates()
    old.load(b"".join(states.packed()), now_ms=90_000, expiration_ms=10_000)
    assert ids(old) == [5, 7], "an open one does not expire, nor one that tells of markers"
    old.transactions.loaded(13)
    old.transactions.commit_to(13)
    assert list(old.expire(90_000, 10_000)) == [1]
    assert ids(old) == [5]


def test_a_snapshot_has_the_coordinator_s_epoch_of_a_marker_that_ended_nothing() -> None:
    """Otherwise a former coordinator is fenced no more after a start."""
    states, restored = ProducerStates(), ProducerStates()
    states.record_marker(5, 0, 7, 100, 1000)
    restored.load(b"".join(states.packed()), now_ms=1000, expiration_ms=10_000)
    for one in (states, restored):
        assert one.check_marker(marker(coordinator_epoch=6)) == COORDINATOR_FENCED
