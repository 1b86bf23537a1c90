"""A follower applies its leader's answers: same bytes, same epochs, same producers."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.builder import end_transaction_marker
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.data_plane.replication_port import Alone
from highwater.partition.replication.follower.following import (
    Outcome,
    UnsoundAnswerError,
    append_from_leader,
    asked_of,
)
from highwater.partition.replication.follower.late_rows import LateRows
from highwater.partition.replication.rows import NONE, Answered
from highwater.partition.storage.log.environment import InlineEnvironment
from highwater.partition.storage.names import GAPS_MARKER
from tests.support.log_batches import make_batch, read_all, write_with
from tests.support.transactional_logs import indexed
from tests.unit.partition.data_plane.node import EPOCH, Node, stored
from tests.unit.partition.data_plane.roles import NODE, follow, follower_fetched, image_says, lead
from tests.unit.partition.data_plane.test_replica_stalled import SlowDisk

LEADER = 2


class Follower(Node):
    """A node whose partition 0 follows node 2 in epoch 4."""

    def __init__(self, directory: Path, **spec: Any) -> None:
        super().__init__(directory)
        self.resumed: list[PartitionReplica] = []
        self.flushes: list[Any] = []
        self.late = LateRows(
            resume=self.resumed.append, flush=lambda _log, done: self.flushes.append(done)
        )
        self.replica = self.add(lead=False, **spec)
        self.log = self.replica.log
        follow(self.replica, LEADER, EPOCH)

    def answer(self, *batches: bytes, **fields: Any) -> Outcome:
        """The leader's answer for the follower's present place."""
        asked = asked_of(self.replica)
        assert asked is not None
        records = b"".join(batches)
        known = {
            "error_code": 0,
            "high_watermark": 0,
            "log_start_offset": 0,
            "log_end_offset": 1000,
            "diverging_epoch": NONE,
            "diverging_end_offset": NONE,
            "records": memoryview(records),
        }
        last_epoch = fields.pop("last_epoch", NONE)
        place = dict(zip(Answered._fields, asked.place, strict=False))
        return self.take(Answered(**(place | known | fields)), last_epoch)

    def take(self, answered: Answered, last_epoch: int = NONE) -> Outcome:
        return append_from_leader(self.replica, answered, self.late, last_epoch)

    @property
    def ends(self) -> tuple[int, int, int, int]:
        """Log start, high watermark, and the log's end by the log and by the state machine."""
        core = self.replica.core
        assert core.log_start_offset == self.log.log_start_offset
        assert core.high_watermark == self.replica.high_watermark == self.log.stored_high_watermark
        return (
            self.log.log_start_offset,
            core.high_watermark,
            self.log.log_end_offset,
            core.log_end_offset,
        )


@pytest.fixture
def follower(tmp_path: Path) -> Follower:
    return Follower(tmp_path)


def idempotent(offset: int, sequence: int, *, producer: int = 7, epoch: int = EPOCH) -> bytearray:
    return make_batch(
        base_offset=offset,
        epoch=epoch,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=sequence,
    )


def test_a_request_has_the_log_end_and_the_epoch_before_it(follower: Follower) -> None:
    asked = asked_of(follower.replica)
    assert asked is not None
    assert asked.place[2:] == (EPOCH, 0, -1)
    follower.answer(make_batch(base_offset=0, epoch=3))
    asked = asked_of(follower.replica)
    assert asked is not None
    assert asked.place[2:] == (EPOCH, 1, 3)
    lead(follower.replica, EPOCH + 1)
    assert asked_of(follower.replica) is None


def test_a_follower_whose_disk_is_full_asks_for_nothing(follower):
    assert asked_of(follower.replica) is not None
    follower.replica.fetches_nothing = True
    assert asked_of(follower.replica) is None


def test_records_are_taken_as_they_come(follower: Follower) -> None:
    batches = [
        make_batch(base_offset=0, epoch=1, timestamps=(5, 6, 7)),
        make_batch(base_offset=3, epoch=1),
        make_batch(base_offset=4, epoch=3),
        idempotent(5, 40, epoch=EPOCH),
    ]
    assert follower.answer(*batches, high_watermark=4) is Outcome.DONE
    assert stored(follower.replica) == b"".join(batches)
    assert follower.log.epochs.cache.entries() == [(1, 0), (3, 4), (EPOCH, 5)]
    assert follower.ends == (0, 4, 6, 6)
    # Its high watermark never passes its own log end.
    assert follower.answer(idempotent(6, 41), high_watermark=100) is Outcome.DONE
    assert follower.ends == (0, 7, 7, 7)
    (entry,) = follower.log.producers.states.entries()
    assert (entry.producer_id, entry.last_sequence, entry.last_offset) == (7, 41, 6)


def test_sequences_are_noted_and_never_refused(follower: Follower) -> None:
    assert follower.answer(idempotent(0, 9), idempotent(1, 3), idempotent(2, 3)) is Outcome.DONE
    (entry,) = follower.log.producers.states.entries()
    assert (entry.last_sequence, entry.last_offset) == (3, 2)


def test_an_answer_may_have_only_offsets(follower: Follower) -> None:
    follower.answer(make_batch(base_offset=0), make_batch(base_offset=1), high_watermark=1)
    assert follower.answer(high_watermark=2) is Outcome.TOLD
    assert follower.ends == (0, 2, 2, 2)
    assert follower.answer(high_watermark=1) is Outcome.TOLD
    assert follower.ends == (0, 2, 2, 2), "a high watermark never goes back"


def test_the_leaders_log_start_is_followed_up_to_the_high_watermark(follower: Follower) -> None:
    batches = [make_batch(base_offset=offset) for offset in range(4)]
    follower.answer(*batches, high_watermark=2, log_start_offset=3)
    assert follower.ends == (2, 2, 4, 4)
    follower.answer(high_watermark=4, log_start_offset=3)
    assert follower.ends == (3, 4, 4, 4)
    follower.answer(high_watermark=4, log_start_offset=1)
    assert follower.ends == (3, 4, 4, 4)


def test_an_answer_of_another_place_or_epoch_changes_nothing(follower: Follower) -> None:
    asked = asked_of(follower.replica)
    assert asked is not None
    records = memoryview(make_batch(base_offset=0, epoch=EPOCH))
    answered = Answered(*asked.place, 0, 0, 0, 1, NONE, NONE, records)
    assert follower.take(answered) is Outcome.DONE
    assert follower.take(answered) is Outcome.DONE, "it comes again"
    assert follower.ends == (0, 0, 1, 1)
    follow(follower.replica, 3, EPOCH + 1)
    late = answered._replace(fetch_offset=1, records=memoryview(make_batch(base_offset=1)))
    assert follower.take(late) is Outcome.OVER
    lead(follower.replica, EPOCH + 2)
    assert follower.take(late._replace(leader_epoch=EPOCH + 2)) is Outcome.OVER
    assert follower.log.log_end_offset == 1


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
def test_errors_are_retried_later(follower: Follower, code: int) -> None:
    assert follower.answer(error_code=code, high_watermark=NONE) is Outcome.REFUSED
    assert follower.ends == (0, 0, 0, 0)


def test_an_unsound_batch_and_all_behind_it_stay_out(follower: Follower) -> None:
    torn = bytearray(make_batch(base_offset=1))
    torn[-1] ^= 1
    good = make_batch(base_offset=0)
    with pytest.raises(UnsoundAnswerError, match="checksum"):
        follower.answer(good, torn, make_batch(base_offset=2), high_watermark=3)
    assert stored(follower.replica) == good
    assert follower.ends == (0, 1, 1, 1)
    with pytest.raises(UnsoundAnswerError, match="checksum"):
        follower.answer(torn)
    assert stored(follower.replica) == good
    assert follower.answer(make_batch(base_offset=1), high_watermark=3) is Outcome.DONE
    assert follower.ends == (0, 2, 2, 2)


def test_diverging_logs_are_truncated_until_they_agree(follower: Follower) -> None:
    batches = [make_batch(base_offset=offset, epoch=1 + offset // 2) for offset in range(4)]
    follower.answer(*batches, idempotent(4, 0, epoch=3), high_watermark=2)
    assert follower.answer(diverging_epoch=2, diverging_end_offset=3) is Outcome.DONE
    assert follower.ends == (0, 2, 3, 3)
    assert follower.log.epochs.cache.entries() == [(1, 0), (2, 2)]
    assert len(follower.log.producers.states) == 0
    assert follower.answer(diverging_epoch=1, diverging_end_offset=2) is Outcome.DONE
    assert follower.ends == (0, 2, 2, 2)
    assert stored(follower.replica) == b"".join(batches[:2])


def test_a_truncation_without_effect_is_not_repeated_in_a_loop(follower: Follower) -> None:
    follower.answer(make_batch(base_offset=0, epoch=3))
    with pytest.raises(UnsoundAnswerError, match="as it is"):
        follower.answer(diverging_epoch=3, diverging_end_offset=7)
    with pytest.raises(UnsoundAnswerError, match="as it is"):
        follower.answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE, log_end_offset=7)
    assert follower.ends == (0, 0, 1, 1)


def test_out_of_range_begins_where_the_leader_begins_or_ends_where_it_ends(
    follower: Follower,
) -> None:
    out = ErrorCode.OFFSET_OUT_OF_RANGE
    assert follower.answer(error_code=out, log_start_offset=70, log_end_offset=90) is Outcome.DONE
    assert follower.ends == (70, 70, 70, 70)
    follower.answer(
        make_batch(base_offset=70), make_batch(base_offset=71), high_watermark=70,
        log_start_offset=70,
    )  # fmt: skip
    assert follower.answer(error_code=out, log_start_offset=0, log_end_offset=71) is Outcome.DONE
    assert follower.ends == (70, 70, 71, 71)


def test_a_leaders_log_may_begin_inside_a_batch(follower: Follower) -> None:
    follower.answer(
        error_code=ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=72, log_end_offset=90
    )
    batch = make_batch(base_offset=70, epoch=2, timestamps=(1, 2, 3, 4))
    assert follower.answer(batch, high_watermark=74, log_start_offset=72) is Outcome.DONE
    assert stored(follower.replica) == batch
    assert follower.ends == (72, 74, 74, 74)
    assert follower.log.epochs.cache.entries() == [(2, 72)]


def test_a_batch_that_overlaps_is_unsound_in_a_log_that_has_records(follower: Follower) -> None:
    follower.answer(make_batch(base_offset=0), make_batch(base_offset=1))
    with pytest.raises(UnsoundAnswerError, match="1 instead of 2"):
        follower.answer(make_batch(base_offset=1, timestamps=(1, 2)))


def test_gaps_of_a_compacted_leader_are_taken_and_noted(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    follower.answer(make_batch(base_offset=0))
    with pytest.raises(UnsoundAnswerError, match="9 instead of 1"):
        follower.answer(make_batch(base_offset=9), high_watermark=8)
    assert not follower.log.extent.gaps
    first, second = make_batch(base_offset=9), make_batch(base_offset=15, timestamps=(1, 2))
    assert follower.answer(first, second, high_watermark=15) is Outcome.DONE
    assert follower.ends == (0, 15, 17, 17)
    assert follower.log.extent.gaps
    assert (Path(follower.log.directory) / GAPS_MARKER).exists()


def test_a_disk_that_fails_takes_the_directory_offline(follower: Follower) -> None:
    def full(*_args: object) -> int:
        raise OSError(errno.ENOSPC, "no space")

    follower.answer(make_batch(base_offset=0))
    write_with(follower.log, full)
    assert follower.answer(make_batch(base_offset=1)) is Outcome.OVER
    assert follower.replica.failed
    assert len(follower.log_failures) == 1
    assert asked_of(follower.replica) is None


def test_a_flush_by_flush_messages_precedes_the_next_fetch(tmp_path: Path) -> None:
    follower = Follower(tmp_path, flush_messages=2)
    assert follower.answer(make_batch(base_offset=0)) is Outcome.DONE
    assert follower.answer(make_batch(base_offset=1), high_watermark=1) is Outcome.LATE
    assert follower.ends == (0, 1, 2, 2)
    assert follower.replica in follower.late
    (done,) = follower.flushes
    done()
    assert follower.resumed == [follower.replica]


class Slow:
    """A follower on a disk that hangs."""

    def __init__(self, directory: Path, **spec: Any) -> None:
        self.disk = SlowDisk()
        self.follower = Follower(directory, environment=self.disk, **spec)
        self.replica = self.follower.replica


@pytest.fixture
def slow(tmp_path: Path) -> Slow:
    return Slow(tmp_path)


def test_writes_to_a_stalled_disk_run_on_a_thread(slow: Slow) -> None:
    follower = slow.follower
    batches = [make_batch(base_offset=0, epoch=1), make_batch(base_offset=1, epoch=2)]
    assert follower.answer(*batches, high_watermark=2) is Outcome.LATE
    assert follower.ends == (0, 0, 0, 0)
    assert asked_of(slow.replica) is None
    assert follower.late.nbytes == len(batches[0])
    slow.disk.finish()
    assert follower.ends == (0, 1, 1, 1)
    assert follower.resumed == [slow.replica]
    assert follower.late.nbytes == 0
    assert follower.answer(batches[1], high_watermark=2) is Outcome.LATE
    slow.disk.finish()
    assert follower.ends == (0, 2, 2, 2)
    assert stored(slow.replica) == b"".join(batches)
    assert follower.log.epochs.cache.entries() == [(1, 0), (2, 1)]


def test_a_late_row_is_flushed_before_it_ends(tmp_path: Path) -> None:
    slow = Slow(tmp_path, flush_messages=1)
    assert slow.follower.answer(make_batch(base_offset=0)) is Outcome.LATE
    slow.disk.finish()
    assert slow.follower.resumed == []
    slow.follower.flushes.pop()()
    assert slow.follower.resumed == [slow.replica]


def test_rows_beyond_a_stalled_disks_limit_are_requested_again(slow: Slow) -> None:
    other = slow.follower.add(1, environment=slow.disk)
    assert slow.follower.late.admit(other, 64 << 20)
    assert slow.follower.answer(make_batch(base_offset=0)) is Outcome.REFUSED
    assert slow.follower.ends == (0, 0, 0, 0)


def test_a_late_row_of_a_former_leader_stays_in_the_log(slow: Slow) -> None:
    follower = slow.follower
    follower.answer(make_batch(base_offset=0, epoch=EPOCH), high_watermark=1)
    follow(slow.replica, 3, EPOCH + 1)
    assert asked_of(slow.replica) is None, "its log is being written to"
    slow.disk.finish()
    assert follower.ends == (0, 0, 1, 1), "that leader's high watermark is not this one's"
    asked = asked_of(slow.replica)
    assert asked is not None
    assert asked.place[2:] == (EPOCH + 1, 1, EPOCH)
    assert follower.resumed == [slow.replica]


def test_a_replica_elected_meanwhile_leads_after_the_late_row(slow: Slow) -> None:
    follower, replica = slow.follower, slow.replica
    row = make_batch(base_offset=0, epoch=EPOCH)
    follower.answer(row, high_watermark=1)
    image_says(replica, leader=NODE, epoch=EPOCH + 1, replicas=(NODE, LEADER))
    sink = follower.append(make_batch(value=b"own"), epoch=EPOCH + 1)
    assert sink.results == []
    slow.disk.stall.stalled = False
    also = follower.append(make_batch(value=b"next"), epoch=EPOCH + 1)
    slow.disk.finish()
    while slow.disk.jobs:
        slow.disk.finish()
    assert (sink.offsets, also.offsets) == ({0: 1}, {0: 2})
    assert stored(replica)[: len(row)] == row
    assert [(b.base_offset, b.leader_epoch) for b in read_all(follower.log)] == [
        (0, EPOCH),
        (1, EPOCH + 1),
        (2, EPOCH + 1),
    ]
    assert follower.log.epochs.cache.entries() == [(EPOCH, 0), (EPOCH + 1, 1)]
    assert replica.core.epoch_start_offset == 1
    follower_fetched(replica, LEADER, 3)
    assert replica.high_watermark == 3


def test_a_leader_never_writes_into_a_late_row(slow: Slow) -> None:
    """Even if other logs' writes show that the directory has recovered."""
    follower, replica = slow.follower, slow.replica
    row = make_batch(base_offset=0, epoch=EPOCH)
    follower.answer(row)
    slow.disk.stall.stalled = False
    lead(replica, EPOCH + 1)
    sink = follower.append(make_batch(value=b"own"), epoch=EPOCH + 1)
    assert sink.results == []
    slow.disk.finish()
    assert sink.offsets == {0: 1}
    assert stored(replica)[: len(row)] == row
    assert len(read_all(follower.log)) == 2


def test_a_late_row_of_a_removed_replica_is_dropped(slow: Slow) -> None:
    slow.follower.answer(make_batch(base_offset=0))
    slow.replica.retire()
    slow.disk.finish()
    assert len(slow.follower.late) == 0
    assert slow.follower.resumed == []


def test_records_from_a_file_are_appended_if_they_match_their_place(follower: Follower) -> None:
    batches = [make_batch(base_offset=0, epoch=2), make_batch(base_offset=1, epoch=3)]
    assert follower.answer(*batches, last_epoch=3) is Outcome.DONE
    assert stored(follower.replica) == b"".join(batches)


@pytest.mark.parametrize(
    "batches",
    [
        [make_batch(base_offset=0, epoch=2)],
        [make_batch(base_offset=0, epoch=3), make_batch(base_offset=1, epoch=4)],
        [make_batch(base_offset=0, epoch=3), make_batch(base_offset=7, epoch=3)],
        [make_batch(base_offset=0, epoch=3)[:-1]],
        [b"\0" * 100],
    ],
)
def test_records_from_a_file_that_do_not_match_are_refused(
    follower: Follower, batches: list[bytes]
) -> None:
    assert follower.answer(*batches, last_epoch=3) is Outcome.STALE
    assert stored(follower.replica) == b""
    assert follower.ends == (0, 0, 0, 0)


def test_a_deposed_leader_asks_when_its_flush_has_ended(tmp_path: Path) -> None:
    """Records that wait for a flush are in the log, so a follower's place includes them."""
    follower = Follower(tmp_path, flush_messages=1)
    lead(follower.replica, EPOCH + 1)
    flushes: list[Any] = []
    follower.replica.flush = lambda _log, done: flushes.append(done)
    sink = follower.append(make_batch(), epoch=EPOCH + 1)
    follow(follower.replica, LEADER, EPOCH + 2)
    assert sink.codes == {0: ErrorCode.REQUEST_TIMED_OUT}
    assert follower.ends == (0, 0, 1, 1)
    assert follower.replica.core.counted_end_offset == 0
    assert asked_of(follower.replica) is None, "a fetch would claim what is not on disk"
    follower.log.durability.flush()
    flushes.pop()()
    assert follower.replica.core.counted_end_offset == 1
    asked = asked_of(follower.replica)
    assert asked is not None
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (1, EPOCH + 1)
    assert follower.answer(diverging_epoch=EPOCH, diverging_end_offset=0) is Outcome.DONE
    assert follower.ends == (0, 0, 0, 0)


def test_a_leader_in_its_next_epoch_sees_the_end_of_a_flush(tmp_path: Path) -> None:
    """No append is answered, but flushed records can be read."""
    node = Follower(tmp_path, flush_messages=1)
    lead(node.replica, EPOCH + 1)
    flushes: list[Any] = []
    node.replica.flush = lambda _log, done: flushes.append(done)
    node.append(make_batch(), epoch=EPOCH + 1)
    lead(node.replica, EPOCH + 2)
    assert node.ends == (0, 0, 1, 1)
    assert node.replica.core.counted_end_offset == 0
    node.log.durability.flush()
    flushes.pop()()
    assert node.ends == (0, 1, 1, 1)


def test_a_new_leader_does_not_count_what_it_has_not_flushed_as_a_follower(tmp_path: Path) -> None:
    """It is the only member of the ISR, so the high watermark waits for its own log alone."""
    follower = Follower(tmp_path, flush_messages=1)
    assert follower.answer(make_batch(base_offset=0)) is Outcome.LATE
    lead(follower.replica, EPOCH + 1)
    assert follower.ends == (0, 0, 1, 1)
    follower.log.durability.flush()
    follower.flushes.pop()()
    assert follower.ends == (0, 1, 1, 1)


def test_the_leaders_log_start_is_acknowledged_when_it_is_on_disk(tmp_path: Path) -> None:
    class Port(Alone):
        def follow(self, replica: object, leader: int, leader_epoch: int) -> None:
            followed.append((leader, leader_epoch))

    class Disk(InlineEnvironment):
        def checkpoint_soon(self, done: Callable[[], None] | None = None) -> None:
            assert done is not None
            written.append(done)

    followed: list[tuple[int, int]] = []
    written: list[Callable[[], None]] = []
    follower = Follower(tmp_path, environment=Disk())
    follower.replica.port = Port()
    follower.answer(*(make_batch(base_offset=n, epoch=EPOCH) for n in range(4)), high_watermark=4)
    assert follower.answer(high_watermark=4, log_start_offset=3) is Outcome.TOLD
    assert follower.answer(high_watermark=4, log_start_offset=4) is Outcome.TOLD
    assert follower.log.log_start_offset == 4
    (write,) = written
    assert (asked_of(follower.replica) or ANY).kept_log_start == 0
    write()
    assert (asked_of(follower.replica) or ANY).kept_log_start == 3
    written[1]()
    assert (asked_of(follower.replica) or ANY).kept_log_start == 4
    assert followed == [(LEADER, EPOCH)] * 2, "it asks again, to say so"
    assert len(written) == 2


def test_what_is_aborted_waits_for_a_slow_disk_with_its_marker(tmp_path: Path) -> None:
    disk = SlowDisk()
    follower = Follower(tmp_path, environment=disk)
    batch = make_batch(
        epoch=EPOCH, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
    )
    assert follower.answer(batch) is Outcome.LATE
    disk.finish()
    marker = end_transaction_marker(
        commit=False,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=1,
        base_offset=1,
        leader_epoch=EPOCH,
    )
    assert follower.answer(marker) is Outcome.LATE
    assert list(tmp_path.rglob("*.txnindex")) == []
    disk.finish()
    [aborted] = indexed(follower.log)[-1]
    assert (aborted.first_offset, aborted.last_offset) == (0, 1)


def test_transactions_whose_markers_are_committed_are_forgotten_although_nobody_reads(
    follower: Follower,
) -> None:
    for number in range(100):
        offset = 2 * number
        batch = make_batch(
            base_offset=offset,
            epoch=EPOCH,
            producer_id=7,
            producer_epoch=0,
            base_sequence=number,
            transactional=True,
        )
        marker = end_transaction_marker(
            commit=True,
            producer_id=7,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=1,
            base_offset=offset + 1,
            leader_epoch=EPOCH,
        )
        follower.answer(batch, marker, high_watermark=offset)
    assert follower.ends[1:3] == (198, 200)
    assert len(follower.log.producers.states.transactions.ended) <= 2
