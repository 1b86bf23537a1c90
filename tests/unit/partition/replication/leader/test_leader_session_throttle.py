"""Followers that catch up within a rate, in a session with a leader that has real logs."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import TOPIC
from tests.unit.partition.data_plane.node import EPOCH
from tests.unit.partition.data_plane.roles import NODE, image_says
from tests.unit.partition.replication.leader_side import (
    FOLLOWER,
    OTHER,
    Leader,
    out_of_sync,
    partitions,
    place,
    resign,
)


@pytest.fixture
def leader(tmp_path):
    return Leader(tmp_path)


@pytest.fixture
def peer(leader):
    return leader.session()


def copied(peer, for_ms, partition=0):
    """How much a follower gets that asks again as soon as it has an answer."""
    clock = peer.leader.clock
    until_ms = clock.now_ms + for_ms
    offset = total = 0
    rows = peer.ask(place(0, partition))
    while clock.now_ms < until_ms:
        if rows is None:
            rows = peer.wait(1)
        for row in rows or ():
            total += len(row.records)
            offset += len(row.records) // batch_size(peer.leader, partition)
        if rows is not None:
            rows = peer.ask(*[place(offset, partition)] if rows else [])
    return total


def batch_size(leader, partition):
    log = leader.plane.replicas[TOPIC, partition].log
    return log.extent.size_bytes // log.log_end_offset


def test_a_follower_that_catches_up_gets_no_more_than_the_rate(leader, peer):
    replica = out_of_sync(leader)
    leader.limit_catch_up(10_000, 0)
    total = copied(peer, for_ms=5_000)
    half_burst = 500
    assert 45_000 <= total <= 50_000 + half_burst + batch_size(leader, 0)
    assert leader.throttle.passed_bytes == total
    assert leader.traffic.bytes_out == {FOLLOWER: total}
    assert replica.log.extent.size_bytes > total, "or nothing was limited"


def test_the_timer_of_a_throttle_ends_with_it(leader, peer):
    out_of_sync(leader)
    leader.limit_catch_up(1_000, 0)
    leader.throttle.passed(leader.clock.now_ms, 100_000)
    assert peer.ask(place(0)) is None
    assert peer.pending_timers == 1
    peer.wait(400)
    assert peer.pending_timers == 1, "one look after the other, none in between"
    leader.limit_catch_up(None)
    (row,) = peer.wait(100)
    assert len(row.records) == leader.plane.replicas[TOPIC, 0].log.extent.size_bytes


def test_others_are_not_held_back_with_it(leader, peer):
    out_of_sync(leader, 0)
    leader.add_led(1)
    out_of_sync(leader, 2, count=1)
    leader.limit_catch_up(0, 0, 1)
    rows = peer.ask(place(0, 0), place(0, 1), place(0, 2))
    assert partitions(rows) == [2], "it is not named"
    assert peer.ask() is None
    for offset in range(5):
        leader.append(make_batch(), partition=1)
        assert partitions(peer.turn()) == [1]
        assert peer.ask(place(offset + 1, 1)) is None


def test_a_held_row_gets_a_fetch_error_at_once(leader, peer):
    replica = out_of_sync(leader)
    leader.limit_catch_up(0, 0)
    assert peer.ask(place(0)) is None
    resign(replica)
    (row,) = peer.turn()
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_that_comes_to_be_in_sync_is_held_no_longer(leader, peer):
    replica = out_of_sync(leader, count=1)
    leader.limit_catch_up(0, 0)
    assert peer.ask(place(0)) is None
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, FOLLOWER, OTHER))
    (row,) = peer.wait(500)
    assert len(row.records) > 0
