"""A single row: when it is queued, and its answers."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.replication.leader.record_source import RecordSource
from highwater.partition.replication.leader.session_row import SessionRow
from highwater.partition.replication.throttle import Side, Throttle
from tests.support.log_batches import make_batch
from tests.unit.partition.data_plane.roles import NODE
from tests.unit.partition.replication.leader_side import FOLLOWER, NODE_EPOCH, Leader, place


@pytest.fixture
def leader(tmp_path):
    return Leader(tmp_path)


def source_of(read=bytes):
    made = RecordSource(
        read_bytes=read, throttle=Throttle(Side.LEADER), look_again=SessionRow.changed
    )
    made.node = FOLLOWER
    return made


def row_of(replica, asked=None):
    noticed = []
    row = SessionRow(asked or place(0), replica, noticed.append)
    row.ask(row.asked, FOLLOWER, NODE_EPOCH, 1000)
    return row, noticed


def test_a_row_is_queued_once_until_it_is_examined(leader):
    row, noticed = row_of(leader.add_led())
    noticed.clear()
    row.noticed = False
    leader.append(make_batch())
    leader.append(make_batch())
    assert noticed == [row]
    row.noticed = False
    leader.append(make_batch())
    assert noticed == [row, row]


def test_a_row_that_does_not_wait_is_not_queued(leader):
    row, noticed = row_of(leader.add_led())
    row.waiting = row.noticed = False
    noticed.clear()
    leader.append(make_batch())
    assert noticed == []


def test_a_removed_row_gets_no_callbacks(leader):
    replica = leader.add_led()
    row, noticed = row_of(replica)
    row.leave()
    row.waiting, row.noticed = True, False
    noticed.clear()
    leader.append(make_batch())
    assert noticed == []
    assert replica.listeners == ()


def test_without_a_replica_there_is_one_answer():
    row, _ = row_of(None)
    assert row.waiting
    assert not row.behind
    assert not row.has_new_offsets
    answer = row.answer(FOLLOWER, NODE_EPOCH, 1, True, source_of())
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not row.waiting
    row.leave()


def test_a_row_is_behind_until_it_is_answered(leader):
    replica = leader.add_led(replicas=(NODE, FOLLOWER))
    row, _ = row_of(replica)
    assert not row.behind
    assert row.has_new_offsets
    row.offsets()
    assert not row.has_new_offsets
    leader.append(make_batch())
    assert row.behind
    assert row.answer(FOLLOWER, NODE_EPOCH, 10, False, source_of()) is None
    assert row.waiting
    source = source_of(lambda found: b"x" * found.length)
    answer = row.answer(FOLLOWER, NODE_EPOCH, 10, True, source)
    assert len(answer.records) == replica.log.extent.size_bytes
    assert not row.waiting
    row.ask(place(1), FOLLOWER, NODE_EPOCH, 1001)
    assert not row.behind
    assert row.has_new_offsets, "the high watermark moved by that fetch"


def test_offsets_are_sent_again_after_a_divergence(leader):
    replica = leader.add_led(replicas=(NODE, FOLLOWER))
    leader.append(make_batch())
    row, _ = row_of(replica, place(1))
    row.offsets()
    row.ask(place(2), FOLLOWER, NODE_EPOCH, 1001)
    answer = row.answer(FOLLOWER, NODE_EPOCH, 10, True, source_of())
    assert answer.diverging_end_offset == 1
    row.ask(place(1), FOLLOWER, NODE_EPOCH, 1002)
    assert row.answer(FOLLOWER, NODE_EPOCH, 10, True, source_of()) is None
    assert row.has_new_offsets


def test_offsets_are_sent_again_to_who_asked_twice_for_one_place(leader):
    """Of the two answers the follower takes the first, which may have had the older high watermark."""
    replica = leader.add_led(replicas=(NODE, FOLLOWER), isr=(NODE,))
    leader.append(make_batch())
    leader.append(make_batch())
    row, _ = row_of(replica)
    row.offsets()
    row.ask(place(0), FOLLOWER, NODE_EPOCH, 1001)
    row.offsets()
    row.ask(place(1), FOLLOWER, NODE_EPOCH, 1002)
    assert row.has_new_offsets
    row.offsets()
    row.ask(place(2), FOLLOWER, NODE_EPOCH, 1003)
    assert not row.has_new_offsets, "once is enough"


def test_replicas_in_the_maximal_isr_do_not_catch_up(leader):
    replica = leader.add_led(isr=(NODE, FOLLOWER))
    row, _ = row_of(replica)
    follower = replica.core.followers[FOLLOWER]
    assert not row.catching_up(FOLLOWER)
    follower.in_maximal_isr = False
    assert row.catching_up(FOLLOWER)
    follower.near = True
    assert not row.catching_up(FOLLOWER), "the high watermark waits for it"
    assert not row.catching_up(99), "it is refused, which need not wait"


def test_a_question_says_where_the_followers_log_begins(leader):
    replica = leader.add_led(replicas=(NODE, FOLLOWER))
    heard = []
    replica.listeners += (lambda one: heard.append(one.core.low_watermark()),)
    row_of(replica, place(0)._replace(kept_log_start=7))
    assert replica.core.followers[FOLLOWER].kept_log_start == 7
    assert heard
    answer = row_of(replica)[0].offsets()
    assert answer[:5] == place(0).place
