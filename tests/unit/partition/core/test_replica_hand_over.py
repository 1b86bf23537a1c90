"""A leader that hands over, and what happens to its log meanwhile and afterwards."""

from __future__ import annotations

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.core import replica_events as on
from highwater.partition.core.replica_effects import (
    BeginEpochBehind,
    HighWatermarkMoved,
    StopLeading,
)
from highwater.partition.core.transitions import Role
from tests.unit.partition.core.conversation import Conversation

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def leader(*isr: int) -> Conversation:
    """Node 1 leads in epoch 4; its log ends at 5."""
    told = Conversation((0, 0), end=5, high_watermark=5)
    told.record(1, 4, 7, replicas=(1, 2, 3), isr=isr)
    return told


def test_who_hands_over_appends_nothing_until_the_next_epoch() -> None:
    told = leader(1, 2, 3)
    assert told.replica.refuse_append(4, -1) == 0
    assert told.hears(on.HandOverAsked()) == []
    assert [told.replica.refuse_append(4, acks) for acks in (-1, 0, 1)] == [NOT_LEADER] * 3
    assert told.replica.refuse_fetch(4) == 0, "followers and clients read on"
    told.record(1, 4, 8, isr=(1, 2))
    assert told.replica.refuse_append(4, -1) == NOT_LEADER, "the same epoch with another ISR"
    told.record(1, 5, 9)
    assert told.replica.refuse_append(5, -1) == 0


def test_nobody_hands_over_to_nobody() -> None:
    told = leader(1)
    told.hears(on.HandOverAsked())
    assert told.replica.refuse_append(4, -1) == 0
    told = leader(1, 2)
    told.hears(on.IneligibleChanged(nodes=frozenset({2})))
    told.hears(on.HandOverAsked())
    assert not told.replica.resigned


def test_who_gives_up_goes_on_in_the_same_epoch() -> None:
    told = leader(1, 2, 3)
    told.hears(on.HandOverAsked())
    assert told.hears(on.HandOverGivenUp()) == []
    assert told.replica.refuse_append(4, -1) == 0


def test_hand_overs_that_come_too_late_change_nothing() -> None:
    told = leader(1, 2, 3)
    told.record(2, 5, 8)
    for event in (on.HandOverAsked(), on.HandOverGivenUp()):
        assert told.hears(event) == []
        assert not told.replica.resigned


def test_the_failed_log_of_a_leader_with_successors_counts_as_resigned() -> None:
    for isr, resigned in (((1, 2, 3), True), ((1,), False)):
        told = leader(*isr)
        assert told.hears(on.LogFailed()) == [StopLeading()]
        assert told.replica.resigned is resigned
        told.record(2, 5, 9)
        assert not told.replica.resigned


def test_a_removed_replica_hears_nothing_any_more() -> None:
    told = leader(1, 2, 3)
    assert told.hears(on.ReplicaRemoved()) == [StopLeading()]
    assert told.record(1, 5, 9) == []
    assert told.hears(on.LogFailed()) == []
    assert (told.replica.role, told.replica.leader) == (Role.REMOVED, -1)
    assert told.replica.refuse_append(5, 1) == NOT_LEADER


# ---- writes and flushes that end in another epoch ----


def test_an_epoch_begins_behind_what_was_being_written() -> None:
    told = leader(1, 2, 3)
    assert told.replica.epoch_start_offset == 5
    late = on.WrittenLate(leader_epoch=2, log_end_offset=8, counted_end_offset=8)
    assert told.hears(late) == [
        BeginEpochBehind(late_epoch=2, late_offset=5, leader_epoch=4, start_offset=8)
    ]
    assert (told.replica.epoch_start_offset, told.replica.log_end_offset) == (8, 8)
    told.fetches(2, 8)
    assert not told.replica.offsets_available
    assert told.fetches(3, 8) == 8
    assert told.replica.offsets_available


def test_a_follower_notes_the_epoch_of_what_was_being_written() -> None:
    told = leader(1, 2, 3)
    told.record(2, 5, 8)
    late = on.WrittenLate(leader_epoch=2, log_end_offset=8, counted_end_offset=6)
    assert told.hears(late) == [
        BeginEpochBehind(late_epoch=2, late_offset=5, leader_epoch=-1, start_offset=8)
    ]
    assert (told.replica.log_end_offset, told.replica.counted_end_offset) == (8, 6)


def test_alone_in_the_isr_what_was_written_late_is_committed() -> None:
    told = leader(1)
    late = on.WrittenLate(leader_epoch=2, log_end_offset=8, counted_end_offset=6)
    assert told.hears(late)[1:] == [HighWatermarkMoved(high_watermark=6)]
    end = on.LogEndMoved(log_end_offset=8, counted_end_offset=8)
    assert told.hears(end) == [HighWatermarkMoved(high_watermark=8)]


def test_what_waits_for_a_flush_is_not_claimed() -> None:
    told = leader(1)
    assert told.replica.appended(9, 5) is None, "the log's own leader does not count it"
    told.record(2, 5, 8)
    assert told.replica.may_fetch(5)
    assert not told.replica.may_ask(), "a fetch from 9 would acknowledge it"
    told.hears(on.LogEndMoved(log_end_offset=9, counted_end_offset=9))
    assert told.replica.may_ask()


def test_a_new_leader_does_not_count_what_it_has_not_flushed() -> None:
    told = Conversation((0, 0), end=5, high_watermark=5)
    told.record(2, 4, 7)
    told.replica.replicated(9, 5, 9)
    assert not told.replica.may_ask()
    told.record(1, 5, 8, isr=(1,))
    assert told.replica.high_watermark == 9, "as the leader said"
    told = Conversation((0, 0), end=5, high_watermark=5)
    told.record(2, 4, 7)
    told.replica.replicated(9, 5, 5)
    told.record(1, 5, 8, isr=(1,))
    assert (told.replica.high_watermark, told.replica.epoch_start_offset) == (5, 9)
    end = on.LogEndMoved(log_end_offset=9, counted_end_offset=9)
    assert told.hears(end) == [HighWatermarkMoved(high_watermark=9)]


def test_the_session_decides_about_what_nobody_else_has() -> None:
    told = leader(1, 2, 3)
    told.replica._in_session = lambda: False
    assert [told.replica.refuse_append(4, acks) for acks in (0, 1, -1)] == [
        NOT_LEADER,
        NOT_LEADER,
        0,
    ]
