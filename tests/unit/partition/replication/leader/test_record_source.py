"""Records as bytes, as places or later, within the limit of the throttle."""

import pytest

from highwater.partition.replication.leader import cold_reads
from highwater.partition.replication.leader import record_source as module
from highwater.partition.replication.leader.cold_reads import ColdReads
from highwater.partition.replication.leader.record_source import HELD, RecordSource
from highwater.partition.replication.leader.session_row import SessionRow
from highwater.partition.replication.rows import SegmentPlace
from highwater.partition.replication.throttle import Side, Throttle
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.log.log_reader import LogReader
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import TOPIC
from tests.unit.partition.data_plane.node import EPOCH, stored
from tests.unit.partition.data_plane.roles import NODE, image_says
from tests.unit.partition.replication.leader_side import FOLLOWER, Leader, place

OUT_OF_SYNC = (NODE,)
RATE = 1_000_000


@pytest.fixture
def leader(tmp_path):
    return Leader(tmp_path)


@pytest.fixture
def throttle():
    made = Throttle(Side.LEADER)
    made._rate = RATE
    made._bucket.set_rate(0, RATE)
    made.partitions = frozenset({(TOPIC, 0), (TOPIC, 1)})
    return made


@pytest.fixture
def source(throttle):
    made = RecordSource(
        read_bytes=lambda found: b"x" * found.length,
        throttle=throttle,
        look_again=SessionRow.changed,
    )
    made.node = FOLLOWER
    return made


def row_of(leader, partition=0, isr=OUT_OF_SYNC, size=1000):
    replica = leader.add_led(partition, isr=isr)
    leader.append(make_batch(value=b"v" * size), partition=partition)
    row = SessionRow(place(0, partition), replica, lambda _row: None)
    row.waiting = True
    return row


def found_in(row):
    log = row.replica.log
    return log.reader.read(0, 1 << 20, end_offset=log.log_end_offset)


# ---- what ----


def test_an_in_sync_follower_gets_uncached_records_at_once(leader, source):
    row = row_of(leader, isr=None)
    found = found_in(row)
    assert bytes(source.records(row, found)) == b"x" * found.length


def test_a_follower_that_catches_up_gets_cached_records(leader, source):
    row = row_of(leader)
    assert bytes(source.records(row, found_in(row))) == stored(row.replica)


def test_uncached_records_come_later(leader, source, monkeypatch):
    row = row_of(leader)
    loads = []
    monkeypatch.setattr(module, "read_in_memory", lambda _found: None)
    monkeypatch.setattr(
        type(row.replica.log.reader), "load", lambda _log, found, done: loads.append((found, done))
    )
    assert source.records(row, found_in(row)) is None
    monkeypatch.setattr(module, "read_in_memory", lambda _found: pytest.fail("it is being read"))
    assert source.records(row, found_in(row)) is None
    ((found, done),) = loads
    done(b"y" * found.length)
    assert bytes(source.records(row, found_in(row))) == b"y" * found.length


def test_a_follower_with_file_access_gets_places_of_large_records(leader, source):
    row = row_of(leader, size=40_000)
    source.takes_places = True
    found = found_in(row)
    segment = found.segment
    assert source.records(row, found) == SegmentPlace(
        segment.path, 0, segment.inode, 0, found.length, EPOCH
    )
    row.bytes_only = True
    assert bytes(source.records(row, found)) == stored(row.replica)
    small = row_of(leader, partition=1)
    assert bytes(source.records(small, found_in(small))) == stored(small.replica)


def test_the_epoch_of_a_place_is_that_of_its_last_record(leader, source):
    source.takes_places = True
    row = row_of(leader, size=40_000)
    replica = row.replica
    leader.append(make_batch(value=b"v" * 40_000))
    image_says(replica, leader=NODE, epoch=EPOCH + 2, replicas=(NODE, FOLLOWER))
    leader.append(make_batch(value=b"v" * 40_000), epoch=EPOCH + 2)
    for end, epoch in ((1, EPOCH), (2, EPOCH), (3, EPOCH + 2)):
        found = replica.log.reader.read(0, 1 << 20, end_offset=end)
        assert found.next_offset == end
        assert source.records(row, found).last_epoch == epoch


def test_a_failed_disk_is_reported(leader, source, monkeypatch):
    row = row_of(leader)

    def fail(_found):
        raise LogDirFailure("file", OSError(5, "I/O error"))

    monkeypatch.setattr(module, "read_in_memory", fail)
    with pytest.raises(LogDirFailure):
        source.records(row, found_in(row))


# ---- how much ----


def test_in_sync_and_other_partitions_are_not_limited(leader, source, throttle):
    throttle.passed(0, 10 * RATE)
    assert source.limit(row_of(leader, isr=None), 5_000_000) == 5_000_000
    assert source.limit(row_of(leader, partition=7), 5_000_000) == 5_000_000
    assert not source.holds


def test_a_follower_that_catches_up_gets_what_the_throttle_allows(leader, source, throttle):
    row = row_of(leader)
    assert source.limit(row, 5_000_000) == RATE // 10
    assert source.limit(row, 300) == 300
    source.answered(row, RATE // 10)
    assert throttle.passed_bytes == RATE // 10
    assert source.limit(row, 5_000_000) == HELD
    assert (source.holds, source.wait_ms(), throttle.holds) == (True, 50, 1)


def test_held_rows_have_their_turn_in_order(leader, source, throttle):
    first, second = row_of(leader, 0), row_of(leader, 1)
    throttle.passed(0, RATE // 10)
    assert [source.limit(row, 1000) for row in (first, second, first)] == [HELD] * 3
    assert source.next_held() is None
    source.now_ms = source.wait_ms()
    assert source.next_held() is first
    assert source.limit(first, 1 << 20) == RATE // 20
    source.answered(first, RATE // 20)
    assert source.next_held() is None
    source.now_ms += source.wait_ms()
    assert source.next_held() is second
    assert not source.holds


def test_removed_and_answered_rows_are_skipped(leader, source, throttle):
    first, second = row_of(leader, 0), row_of(leader, 1)
    throttle.passed(0, RATE)
    for row in (first, second):
        source.limit(row, 1000)
    source.forget(first)
    source.now_ms = 10_000
    assert source.next_held() is second
    assert source.next_held() is None


@pytest.mark.parametrize("change", ["partitions", "isr"])
def test_a_row_no_longer_throttled_is_answered_at_once(leader, source, throttle, change):
    row = row_of(leader)
    throttle.passed(0, RATE)
    assert source.limit(row, 1000) == HELD
    assert source.next_held() is None
    if change == "partitions":
        throttle.partitions = frozenset()
    else:
        row.replica.core.followers[FOLLOWER].in_maximal_isr = True
    assert source.next_held() is row


@pytest.mark.parametrize("was_read", [True, False])
def test_a_held_row_does_not_delay_other_reads(leader, source, throttle, monkeypatch, was_read):
    """Neither its read records nor its place in the queue of reads stay."""
    looked, loads = [], []
    source.cold = ColdReads(looked.append)
    monkeypatch.setattr(cold_reads, "READS_MAX", 1)
    monkeypatch.setattr(module, "read_in_memory", lambda _found: None)
    monkeypatch.setattr(LogReader, "load", lambda _log, found, done: loads.append((found, done)))
    held, other, busy = row_of(leader, 0), row_of(leader, 7), row_of(leader, 1)
    if was_read:
        assert source.records(held, found_in(held)) is None
        assert source.records(other, found_in(other)) is None
        found, done = loads.pop()
        done(b"y" * found.length)
    else:
        for row in (busy, held, other):
            assert source.records(row, found_in(row)) is None
        source.forget(busy)
    assert looked.pop() is held
    throttle.passed(0, RATE)
    assert source.limit(held, 1000) == HELD
    assert looked == [other]
    loads.clear()
    assert source.records(other, found_in(other)) is None
    assert len(loads) == 1


def test_close_releases_all_rows(leader, source, throttle):
    throttle.passed(0, RATE)
    source.limit(row_of(leader), 1000)
    source.close()
    assert not source.holds
