"""Conversations of a follower's session with a leader that has real logs."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.core.followers import FollowerProgress
from highwater.partition.replication.leader import leader_session, record_source
from highwater.partition.replication.leader.leader_session import HW_LINGER_MS
from highwater.partition.replication.leader.segment_bytes import read_slice
from highwater.partition.replication.rows import SegmentPlace
from highwater.partition.storage.errors import LogDirFailure
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import TOPIC
from tests.unit.partition.data_plane.node import EPOCH, stored
from tests.unit.partition.data_plane.roles import NODE, follower_fetched, image_says
from tests.unit.partition.replication.leader_side import (
    FOLLOWER,
    OTHER,
    Leader,
    out_of_sync,
    partitions,
    place,
    resign,
    told,
)

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture
def leader(tmp_path):
    return Leader(tmp_path)


@pytest.fixture
def peer(leader):
    return leader.session()


# ---- records ----


def test_records_that_are_there_are_answered_at_the_end_of_the_turn(leader, peer):
    replica = leader.add_led()
    leader.append(make_batch(), make_batch())
    peer.request(place(0))
    assert peer.taken() is None
    (row,) = peer.turn()
    assert row[:5] == place(0).place
    assert told(row) == (0, 0, 0, 2)
    assert (row.diverging_epoch, row.diverging_end_offset) == (-1, -1)
    assert bytes(row.records) == stored(replica)


def test_what_is_appended_in_one_turn_leaves_in_one_answer(leader, peer):
    leader.add_led(0)
    leader.add_led(1)
    assert peer.ask(place(0, 0), place(0, 1)) is None
    leader.append(make_batch(), partition=1)
    leader.append(make_batch(), partition=0)
    leader.append(make_batch(), partition=0)
    assert peer.taken() is None
    rows = peer.turn()
    assert partitions(rows) == [1, 0]
    assert [row.log_end_offset for row in rows] == [1, 2]


def test_appends_while_no_request_is_under_way_wait_for_the_next(leader, peer):
    leader.add_led()
    leader.append(make_batch())
    peer.one(place(0))
    leader.append(make_batch())
    assert peer.turn() is None
    assert told(peer.one(place(1))) == (0, 0, 0, 2)


def test_an_answered_row_waits_for_the_next_request(leader, peer):
    leader.add_led(0)
    leader.add_led(1)
    leader.append(make_batch(), partition=0)
    assert partitions(peer.ask(place(0, 0), place(0, 1))) == [0]
    leader.append(make_batch(), partition=0)
    leader.append(make_batch(), partition=1)
    assert partitions(peer.ask()) == [1]
    assert partitions(peer.ask(place(1, 0))) == [0]


def test_records_that_are_not_flushed_yet_are_for_followers_already(leader, peer):
    replica = leader.add_led(flush_messages=1)
    flushes = []
    replica.flush = lambda log, done: flushes.append(done)
    leader.append(make_batch())
    assert (replica.core.log_end_offset, replica.core.counted_end_offset) == (1, 0)
    assert peer.one(place(0)).log_end_offset == 1
    assert peer.ask(place(1)) is None
    assert replica.core.followers[FOLLOWER].log_end_offset == 1


# ---- acknowledgements ----


def test_each_place_acknowledges_all_before_it(leader, peer):
    other = leader.session(OTHER)
    replica = leader.add_led()
    sink = leader.append(make_batch(), acks=-1)
    peer.one(place(0))
    peer.ask(place(1))
    assert replica.high_watermark == 0
    assert sink.results == []
    other.ask(place(1))
    assert replica.high_watermark == 1
    assert sink.codes == {0: 0}


def test_a_high_watermark_waits_shortly_for_records(leader, peer):
    other = leader.session(OTHER)
    replica = leader.add_led()
    leader.append(make_batch())
    other.one(place(0))
    assert peer.ask(place(1)) is None
    other.ask(place(1))
    assert replica.high_watermark == 1
    assert peer.turn() is None
    assert peer.wait(HW_LINGER_MS - 1) is None
    (row,) = peer.wait(1)
    assert told(row) == (0, 1, 0, 1)
    assert row.records == b""
    assert peer.ask() is None, "offsets alone do not end the waiting, and are told once"
    assert peer.wait(400) is None
    leader.append(make_batch())
    (row,) = peer.turn()
    assert told(row) == (0, 1, 0, 2)


def test_a_high_watermark_sent_with_records_is_not_sent_again(leader, peer):
    leader.add_led(replicas=(NODE, FOLLOWER))
    peer.ask(place(0))
    peer.wait(HW_LINGER_MS)  # The high watermark of an empty log.
    peer.ask()
    for offset in range(3):
        leader.append(make_batch())
        (row,) = peer.turn()
        assert told(row) == (0, offset, 0, offset + 1)
        assert peer.ask(place(offset + 1)) is None
    assert peer.wait(HW_LINGER_MS - 1) is None
    (row,) = peer.wait(1)
    assert told(row) == (0, 3, 0, 3)


def test_old_unsent_offsets_go_with_the_next_answer(leader, peer):
    leader.add_led(0)
    leader.add_led(1)
    leader.append(make_batch(), partition=0)
    assert partitions(peer.ask(place(0, 0), place(0, 1))) == [0]
    peer.wait(HW_LINGER_MS)
    leader.append(make_batch(), partition=0)
    rows = peer.ask(place(1, 0))
    assert [(row.partition, len(row.records) > 0) for row in rows] == [(0, True), (1, False)]


def test_an_unchanged_place_gets_the_offsets_again(leader, peer):
    leader.add_led(replicas=(NODE, FOLLOWER))
    leader.append(make_batch())
    peer.one(place(0))
    peer.ask(place(1))
    (row,) = peer.wait(HW_LINGER_MS)
    assert told(row) == (0, 1, 0, 1)
    assert peer.ask(place(1)) is None
    (row,) = peer.wait(HW_LINGER_MS)
    assert told(row) == (0, 1, 0, 1)


def test_without_news_the_answer_is_empty_after_max_wait(leader, peer):
    leader.add_led()
    peer.ask(place(0))
    assert len(peer.wait(HW_LINGER_MS)) == 1
    assert peer.ask(max_wait_ms=300) is None
    assert peer.wait(299) is None
    assert peer.wait(1) == []
    assert peer.pending_timers == 0
    assert peer.ask(max_wait_ms=0) == []


# ---- divergence and range ----


def test_a_diverging_follower_gets_the_divergence_and_makes_no_progress(leader, peer):
    replica = leader.add_led(epoch=2)
    leader.append(make_batch(), epoch=2)
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, FOLLOWER, OTHER))
    leader.append(make_batch())
    row = peer.one(place(3, last=2))
    assert (row.diverging_epoch, row.diverging_end_offset) == (2, 1)
    assert told(row) == (0, 0, 0, 2)
    assert row.records == b""
    assert replica.core.followers[FOLLOWER].log_end_offset == -1
    assert peer.ask() is None, "it is answered once"
    size = replica.log.extent.size_bytes // 2
    assert bytes(peer.one(place(1, last=2)).records) == stored(replica)[size:]


def commit_all(leader, replica):
    """Both followers have the whole log."""
    for node in (FOLLOWER, OTHER):
        follower_fetched(replica, node, replica.log.log_end_offset)
    for follower in replica.core.progress:
        follower.log_end_offset = -1


@pytest.mark.parametrize("asked", [place(1), place(7, last=-1), place(3, last=9)])
def test_out_of_range_comes_with_the_leaders_offsets(leader, peer, asked):
    replica = leader.add_led()
    leader.append(*[make_batch() for _ in range(4)])
    commit_all(leader, replica)
    replica.log.deletion.advance_start(2)
    row = peer.one(asked)
    assert told(row) == (ErrorCode.OFFSET_OUT_OF_RANGE, 4, 2, 4)
    assert replica.core.followers[FOLLOWER].log_end_offset == -1
    assert peer.ask() is None
    assert len(peer.one(place(2)).records) == replica.log.extent.size_bytes // 2


def test_records_deleted_during_a_wait_are_out_of_range(leader, peer):
    replica = leader.add_led()
    leader.append(make_batch(), make_batch())
    commit_all(leader, replica)
    peer.request(place(0))
    replica.log.deletion.advance_start(1)
    (row,) = peer.turn()
    assert told(row) == (ErrorCode.OFFSET_OUT_OF_RANGE, 2, 1, 2)


# ---- refusals ----


def test_errors_come_without_offsets(leader, peer):
    row = peer.one(place(5, partition=3))
    assert row[:5] == place(5, partition=3).place
    assert told(row) == (NOT_LEADER, -1, -1, -1)
    assert (row.diverging_epoch, row.diverging_end_offset, row.records) == (-1, -1, b"")
    assert len(peer.session) == 0


def test_a_refused_fetch_gets_its_error(leader, peer):
    replica = leader.add_led()
    assert peer.one(place(0, epoch=EPOCH - 1)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert peer.one(place(0, epoch=EPOCH + 1)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    stranger = leader.session(9)
    assert stranger.one(place(0)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert peer.ask(place(0)) is None
    older = leader.session()
    older.node_epoch -= 1
    assert older.one(place(0)).error_code == ErrorCode.STALE_BROKER_EPOCH
    image_says(replica, leader=OTHER, epoch=EPOCH + 1, replicas=(NODE, FOLLOWER, OTHER))
    assert stranger.one(place(0)).error_code == NOT_LEADER
    replica.fail()
    assert stranger.one(place(0)).error_code == NOT_LEADER, "another node leads"


def next_epoch(replica):
    image_says(replica, leader=NODE, epoch=EPOCH + 1, replicas=(NODE, FOLLOWER, OTHER))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (next_epoch, ErrorCode.FENCED_LEADER_EPOCH),
        (resign, NOT_LEADER),
        (lambda replica: replica.fail(), NOT_LEADER),
    ],
)
def test_a_changed_role_ends_the_wait(leader, peer, change, code):
    replica = leader.add_led()
    assert peer.ask(place(0)) is None
    change(replica)
    (row,) = peer.turn()
    assert row.error_code == code
    assert len(peer.session) == 0
    assert replica.listeners == ()


def test_a_removed_replica_ends_the_wait(leader, peer):
    replica = leader.add_led()
    assert peer.ask(place(0)) is None
    del leader.plane.replicas[TOPIC, 0]
    replica.retire()
    (row,) = peer.turn()
    assert row.error_code == NOT_LEADER
    assert replica.listeners == ()
    assert peer.one(place(0)).error_code == NOT_LEADER
    again = leader.add_led()
    leader.append(make_batch())
    assert told(peer.one(place(0))) == (0, 0, 0, 1)
    assert len(again.listeners) == 1


def test_a_replica_that_was_replaced_unseen_is_not_asked(leader, peer):
    before = leader.add_led()
    assert peer.ask(place(0)) is None
    del leader.plane.replicas[TOPIC, 0]
    after = leader.add_led()
    leader.append(make_batch())
    assert told(peer.one(place(0))) == (0, 0, 0, 1)
    assert (before.listeners, len(after.listeners)) == ((), 1)


def test_one_log_that_cannot_be_read_is_one_partitions_error(leader, peer):
    for n in (0, 1):
        leader.add_led(n)
        leader.append(make_batch(), partition=n)
    read = peer.read

    def fail_first(found):
        if "orders-0" in found.segment.file:
            raise LogDirFailure(found.segment.file, OSError(5, "I/O error"))
        return read(found)

    peer.read = fail_first
    first, second = peer.ask(place(0, 0), place(0, 1))
    assert told(first) == (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)
    assert len(second.records) > 0
    assert len(leader.log_failures) == 1
    assert leader.plane.replicas[TOPIC, 0].failed
    assert peer.turn() is None


def test_a_bug_takes_its_partition_offline_and_no_other(leader, peer, monkeypatch):
    for n in (0, 1):
        leader.add_led(n)
        leader.append(make_batch(), partition=n)
    broken = leader.plane.replicas[TOPIC, 0]
    monkeypatch.setattr(FollowerProgress, "fetched", raising_for(broken))
    rows = peer.ask(place(0, 0), place(0, 1))
    assert [row.error_code for row in rows] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    assert [str(bug) for bug in leader.bugs] == ["a bug"]


def raising_for(replica):
    original = FollowerProgress.fetched
    broken = replica.core.followers[FOLLOWER]

    def fetched(self, *args):
        if self is broken:
            raise ZeroDivisionError("a bug")
        original(self, *args)

    return fetched


def test_an_answer_that_cannot_be_sent_breaks_the_session(leader, peer):
    replica = leader.add_led()
    leader.append(make_batch())

    def answer(_request_id, _rows):
        raise ValueError("no answer")

    peer.session._answer = answer
    assert peer.ask(place(0)) is None
    assert [str(error) for error in peer.broken] == ["no answer"]
    assert replica.listeners == ()


# ---- room ----


def batches(leader, partition, count, size=1000):
    leader.append(*[make_batch(value=b"v" * size) for _ in range(count)], partition=partition)
    log = leader.plane.replicas[TOPIC, partition].log
    return log.extent.size_bytes // count


def test_a_row_without_room_is_first_in_the_next_answer(leader, peer):
    for n in range(3):
        leader.add_led(n)
        size = batches(leader, n, 3)
    rows = peer.ask(*[place(0, n) for n in range(3)], max_bytes=4 * size + 1)
    assert [(row.partition, len(row.records) // size) for row in rows] == [(0, 3), (1, 1)]
    rows = peer.ask(place(3, 0), place(1, 1), max_bytes=4 * size + 1)
    assert [(row.partition, len(row.records) // size) for row in rows] == [(2, 3), (1, 1)]
    rows = peer.ask(place(3, 2), place(2, 1), max_bytes=4 * size + 1)
    assert [(row.partition, len(row.records) // size) for row in rows] == [(1, 1)]


def test_a_partition_has_its_own_limit(leader, peer):
    for n in range(2):
        leader.add_led(n)
        size = batches(leader, n, 3)
    rows = peer.ask(place(0, 0), place(0, 1), partition_max_bytes=2 * size + 1)
    assert [len(row.records) // size for row in rows] == [2, 2]


@pytest.mark.parametrize("limit", ["max_bytes", "partition_max_bytes"])
def test_a_batch_above_every_limit_goes_alone(leader, peer, limit):
    for n in range(2):
        leader.add_led(n)
        size = batches(leader, n, 2)
    answers = [
        peer.ask(place(0, 0), place(0, 1), **{limit: 10}),
        peer.ask(place(1, 0), **{limit: 10}),
        peer.ask(place(1, 1), **{limit: 10}),
    ]
    assert [[(row.partition, len(row.records)) for row in rows] for rows in answers] == [
        [(0, size)],
        [(1, size)],
        [(0, size)],
    ]


def test_errors_need_no_room(leader, peer):
    leader.add_led(0)
    batches(leader, 0, 1)
    rows = peer.ask(place(0, 0), place(0, 8), place(0, 9), max_bytes=0)
    assert [(row.partition, row.error_code) for row in rows] == [
        (0, 0),
        (8, NOT_LEADER),
        (9, NOT_LEADER),
    ]


def test_no_answer_has_more_rows_than_allowed(leader, peer, monkeypatch):
    monkeypatch.setattr(leader_session, "ANSWER_ROWS_MAX", 2)
    assert partitions(peer.ask(*[place(0, n) for n in range(5)])) == [0, 1]
    assert partitions(peer.ask()) == [2, 3]
    assert partitions(peer.ask()) == [4]
    leader.add_led(0)
    leader.add_led(1)
    leader.add_led(2)
    peer.ask(*[place(0, n) for n in range(3)])
    assert partitions(peer.wait(HW_LINGER_MS)) == [0, 1]
    assert partitions(peer.ask()) == [2]


# ---- catching up ----


def test_uncached_records_do_not_delay_other_rows(leader, peer, monkeypatch):
    cold = out_of_sync(leader, 0, count=2)
    leader.add_led(1)
    leader.append(make_batch(), partition=1)
    loads = []
    monkeypatch.setattr(record_source, "read_in_memory", lambda _found: None)
    monkeypatch.setattr(
        type(cold.log.reader), "load", lambda _log, found, done: loads.append((found, done))
    )
    assert partitions(peer.ask(place(0, 0), place(0, 1))) == [1]
    leader.append(make_batch(), partition=0)
    leader.append(make_batch(), partition=1)
    assert partitions(peer.ask(place(1, 1))) == [1]
    ((found, done),) = loads
    assert peer.ask(place(2, 1)) is None
    done(read_slice(found))
    (row,) = peer.turn()
    assert bytes(row.records) == stored(cold)[: found.length]
    assert peer.ask(place(1, 0)) is None
    assert len(loads) == 2


def test_reads_for_a_disconnected_follower_are_dropped(leader, peer, monkeypatch):
    cold = out_of_sync(leader, 0, count=2)
    loads = []
    monkeypatch.setattr(record_source, "read_in_memory", lambda _found: None)
    monkeypatch.setattr(type(cold.log.reader), "load", lambda _log, found, done: loads.append(done))
    assert peer.ask(place(0)) is None
    peer.session.close()
    loads[0](b"late")
    assert peer.turn() is None


# ---- places in files ----


def test_large_records_are_sent_as_places(leader, peer):
    for n in range(2):
        leader.add_led(n)
    leader.append(make_batch(value=b"v" * 50_000), partition=0)
    leader.append(make_batch(), partition=1)
    large, small = peer.ask(place(0, 0), place(0, 1), accepts_references=True)
    replica = leader.plane.replicas[TOPIC, 0]
    segment = replica.log.extent.active
    assert large.records == SegmentPlace(
        segment.path, 0, segment.inode, 0, replica.log.extent.size_bytes, EPOCH
    )
    assert bytes(small.records) == stored(leader.plane.replicas[TOPIC, 1])
    assert leader.traffic.bytes_out[FOLLOWER] == len(large.records) + len(small.records)
    again = peer.one(place(0, 0), accepts_references=True, bytes_only=[(TOPIC, 0)])
    assert bytes(again.records) == stored(replica)
    assert type(peer.one(place(0, 0), accepts_references=True).records) is SegmentPlace


# ---- large requests ----


def test_many_partitions_are_examined_in_several_turns(leader, peer, monkeypatch):
    monkeypatch.setattr(leader_session, "ASKED_AT_ONCE", 3)
    for n in range(8):
        leader.add_led(n)
    leader.append(make_batch(), partition=1)
    leader.append(make_batch(), partition=7)
    peer.request(*[place(0, n) for n in range(8)], forgotten=[(TOPIC, 9)])
    assert len(peer.session) == 3
    assert partitions(peer.turn()) == [1]
    assert len(peer.session) == 6
    peer.request(place(1, 1), forgotten=[(TOPIC, 6)])
    assert len(peer.session) == 6, "in order"
    assert partitions(peer.turn()) == [7]
    assert len(peer.session) == 7
    assert leader.plane.replicas[TOPIC, 6].listeners == ()
    assert peer.turn() is None
