"""The replica's control path as conversations: roles, ISR proposals, truncation, failure."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.core import replica_events as on
from highwater.partition.core.replica_effects import (
    AdvanceLogStart,
    HighWatermarkMoved,
    ProposeIsr,
    RestartLog,
    StartFollowing,
    StartLeading,
    StopFollowing,
    StopLeading,
    TruncateLog,
)
from highwater.partition.core.transitions import TRANSITIONS, IllegalTransitionError, Role
from tests.unit.partition.core.conversation import LAG_MS, Conversation


def test_every_pair_of_the_table_has_a_method() -> None:
    replica = Conversation().replica
    for role, events in TRANSITIONS.items():
        for event, method in events.items():
            assert callable(getattr(replica, method)), (role, event)


def test_a_truncation_that_nobody_asked_for_is_a_bug() -> None:
    told = Conversation()
    with pytest.raises(IllegalTransitionError, match="LogTruncated while unassigned"):
        told.hears(on.LogTruncated(log_start_offset=0, log_end_offset=0))


def test_leading_following_leading() -> None:
    told = Conversation((0, 0), end=5, high_watermark=3)
    effects = told.record(1, 4, 7)
    assert effects == [StartLeading(leader_epoch=4, start_offset=5)]
    assert told.epochs.entries() == [(0, 0), (4, 5)]
    assert told.replica.role is Role.LEADER
    assert told.record(2, 5, 8) == [StopLeading(), StartFollowing(leader=2, leader_epoch=5)]
    assert told.record(1, 4, 7) == [], "an old record changes nothing"
    assert told.record(-1, 6, 9) == [StartFollowing(leader=-1, leader_epoch=6)]
    assert not told.replica.may_fetch(6), "nobody leads"
    effects = told.record(1, 7, 10, isr=(1,))
    assert effects == [
        StartLeading(leader_epoch=7, start_offset=5),
        HighWatermarkMoved(high_watermark=5),
    ]
    effects = told.record(1, 9, 12, isr=(1,))
    assert effects == [StopLeading(), StartLeading(leader_epoch=9, start_offset=5)]


def test_a_new_leader_does_not_trust_what_it_knew_of_followers() -> None:
    told = Conversation()
    told.record(1, 1, 1)
    told.appends(5)
    told.fetches(2, 5)
    assert told.fetches(3, 5) == 5
    told.record(2, 2, 2)
    told.record(1, 3, 3)
    assert told.appends(6) is None
    told.fetches(2, 6)
    assert told.fetches(3, 6) == 6


def test_who_lags_is_proposed_out_and_the_high_watermark_waits_for_the_answer() -> None:
    told = Conversation()
    told.record(1, 1, 1)
    told.appends(5)
    told.fetches(2, 5, now_ms=LAG_MS)
    assert told.hears(on.LagChecked(now_ms=LAG_MS)) == []
    (proposal,) = told.hears(on.LagChecked(now_ms=LAG_MS + 1))
    assert proposal == ProposeIsr(
        attempt=1, leader_epoch=1, partition_epoch=1, isr=(1, 2), node_epochs=(101, 102)
    )
    assert told.replica.high_watermark == 0
    assert told.hears(on.LagChecked(now_ms=LAG_MS * 2)) == [], "one attempt at a time"
    answer = on.IsrAnswered(attempt=1, error_code=0, leader_epoch=1, partition_epoch=2, isr=(1, 2))
    assert told.hears(answer) == [HighWatermarkMoved(high_watermark=5)]
    assert told.hears(answer) == [], "the same again"


def test_who_caught_up_is_proposed_and_counts_at_once() -> None:
    told = Conversation()
    told.record(1, 1, 1, isr=(1,))
    told.appends(5)
    assert told.fetches(2, 4) is None
    assert not told.replica.isr_due, "it lacks a committed record"
    told.fetches(2, 5)
    assert told.replica.isr_due
    assert told.proposes().isr == (1, 2)
    assert told.appends(6) is None, "the maximal ISR counts (KIP-497)"
    assert told.fetches(2, 6) == 6


def test_nobody_joins_before_it_has_the_start_of_the_epoch() -> None:
    told = Conversation((0, 0), end=9, high_watermark=2)
    told.record(1, 1, 1, isr=(1, 3))
    told.fetches(2, 8)
    assert not told.replica.isr_due
    told.fetches(2, 9)
    assert told.replica.isr_due


def test_fenced_nodes_are_not_proposed() -> None:
    told = Conversation()
    told.record(1, 1, 1, isr=(1,))
    told.hears(on.IneligibleChanged(nodes=frozenset({2})))
    told.fetches(2, 0)
    assert not told.replica.isr_due
    told.hears(on.IneligibleChanged(nodes=frozenset()))
    told.fetches(2, 0)
    assert told.proposes().isr == (1, 2)


@pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_refused_member_counts_no_more(code: ErrorCode) -> None:
    told = Conversation()
    told.record(1, 1, 1, isr=(1,))
    told.fetches(2, 0)
    told.proposes()
    told.appends(5)
    answer = on.IsrAnswered(attempt=1, error_code=code)
    assert told.hears(answer) == [HighWatermarkMoved(high_watermark=5)]
    assert not told.replica.isr_due, "only its next fetch asks again"


def test_a_refusal_does_not_undo_an_attempt_that_nobody_answered() -> None:
    told = Conversation()
    told.record(1, 1, 1, isr=(1,))
    told.fetches(2, 0)
    told.proposes()
    told.hears(on.IsrUnanswered(attempt=1))
    assert told.proposes().isr == (1, 2)
    told.appends(5)
    refused = on.IsrAnswered(attempt=2, error_code=ErrorCode.INELIGIBLE_REPLICA)
    assert told.hears(refused) == [], "attempt 1 may be committed yet"
    told.hears(on.IneligibleChanged(nodes=frozenset({2})))
    settling = told.proposes()
    assert settling.isr == (1,), "the same ISR, so that the partition epoch moves"
    settled = on.IsrAnswered(attempt=3, error_code=0, leader_epoch=1, partition_epoch=2, isr=(1,))
    assert told.hears(settled) == [HighWatermarkMoved(high_watermark=5)]


@pytest.mark.parametrize("code", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION])
def test_an_outdated_leader_waits_for_the_image(code: ErrorCode) -> None:
    told = Conversation()
    told.record(1, 1, 1, isr=(1,))
    told.fetches(2, 0)
    told.proposes()
    told.hears(on.IsrAnswered(attempt=1, error_code=code))
    told.fetches(2, 0)
    assert told.hears(on.IsrDue()) == []
    told.record(1, 1, 2, isr=(1,))
    assert told.proposes().partition_epoch == 2


def test_the_state_in_a_refusal_waits_for_its_image() -> None:
    """It lacks min.insync.replicas, and with the old one too much would be committed."""
    told = Conversation()
    told.record(1, 1, 1, isr=(1,))
    told.fetches(2, 0)
    told.proposes()
    told.hears(
        on.IsrAnswered(
            attempt=1,
            error_code=ErrorCode.INVALID_UPDATE_VERSION,
            leader_epoch=1,
            partition_epoch=4,
            isr=(1, 2),
        )
    )
    assert told.replica.isr.committed == (1,)
    assert not told.replica.isr.may_propose
    told.record(1, 1, 4, isr=(1, 2), min_isr=3)
    assert told.replica.isr.committed == (1, 2)
    assert told.replica.under_min_isr


def test_a_smaller_minimum_comes_with_its_own_partition_epoch() -> None:
    told = Conversation()
    told.record(1, 1, 1, isr=(1,), min_isr=2)
    assert told.appends(5) is None
    assert told.record(1, 1, 1, isr=(1,), min_isr=1) == []
    assert told.record(1, 1, 2, isr=(1,), min_isr=1) == [HighWatermarkMoved(high_watermark=5)]


def diverged(epoch: int, end: int, *, offset: int, last: int) -> on.Diverged:
    return on.Diverged(
        leader_epoch=5, fetch_offset=offset, last_fetched_epoch=last, epoch=epoch, end_offset=end
    )


def test_a_divergence_cuts_once() -> None:
    told = Conversation((0, 0), (3, 6), end=9, high_watermark=4)
    told.record(2, 5, 1)
    answer = diverged(0, 8, offset=9, last=3)
    assert told.hears(answer) == [TruncateLog(offset=6)]
    assert not told.replica.may_fetch(5), "until the log is cut"
    assert told.hears(answer) == []
    told.epochs.truncate_from_end(6)
    told.hears(on.LogTruncated(log_start_offset=0, log_end_offset=6))
    assert told.replica.may_fetch(5)
    assert told.replica.high_watermark == 4
    assert told.hears(answer) == [], "it is about a log that is no more"


def test_a_truncation_below_the_high_watermark_takes_it_along() -> None:
    told = Conversation((0, 0), (3, 6), end=9, high_watermark=9)
    told.record(2, 5, 1)
    told.hears(diverged(0, 8, offset=9, last=3))
    told.hears(on.LogTruncated(log_start_offset=0, log_end_offset=6))
    assert told.replica.high_watermark == 6


def out_of_range(*, offset: int, last: int, start: int, end: int) -> on.OutOfRange:
    return on.OutOfRange(
        leader_epoch=5,
        fetch_offset=offset,
        last_fetched_epoch=last,
        leader_log_start_offset=start,
        leader_log_end_offset=end,
    )


def test_a_follower_before_the_leaders_start_begins_again() -> None:
    told = Conversation((0, 0), end=9, high_watermark=4)
    told.record(2, 5, 1)
    wanted = told.hears(out_of_range(offset=9, last=0, start=20, end=30))
    assert wanted == [RestartLog(offset=20)]
    told.epochs.clear()
    told.hears(on.LogTruncated(log_start_offset=20, log_end_offset=20))
    assert told.replica.high_watermark == 20


def test_a_follower_beyond_the_leaders_end_is_cut() -> None:
    told = Conversation(end=9)
    told.record(2, 5, 1)
    wanted = told.hears(out_of_range(offset=9, last=-1, start=0, end=7))
    assert wanted == [TruncateLog(offset=7)]


def test_within_the_leaders_range_nothing_is_cut() -> None:
    told = Conversation(end=9)
    told.record(2, 5, 1)
    assert told.hears(out_of_range(offset=9, last=-1, start=0, end=9)) == []


def test_a_failed_log_ends_everything() -> None:
    for leader, last in ((1, StopLeading()), (2, StopFollowing())):
        told = Conversation()
        told.record(leader, 1, 1)
        assert told.hears(on.LogFailed()) == [last]
        assert told.replica.role is Role.OFFLINE
        assert told.hears(on.LogFailed()) == []
        assert told.record(1, 2, 2) == []
        assert (told.replica.leader, told.replica.leader_epoch) == (1, 2)
        assert told.replica.refuse_append(2, -1) == ErrorCode.KAFKA_STORAGE_ERROR
        assert told.replica.refuse_fetch(2) == ErrorCode.KAFKA_STORAGE_ERROR


def test_late_answers_find_a_follower() -> None:
    told = Conversation()
    told.record(2, 1, 1)
    for event in (
        on.LagChecked(now_ms=1),
        on.IsrDue(),
        on.IsrAnswered(attempt=1, error_code=0),
        on.IsrUnanswered(attempt=1),
    ):
        assert told.hears(event) == []


def test_replicas_come_and_go() -> None:
    told = Conversation()
    told.record(1, 1, 1)
    told.fetches(2, 0)
    told.record(1, 1, 2, replicas=(1, 2, 4), isr=(1, 2))
    assert sorted(told.replica.followers) == [2, 4]
    assert told.replica.followers[2].node_epoch == 102, "what is known of it stays"


def test_who_left_the_isr_joins_by_what_it_fetches_from_then_on() -> None:
    """Its log may have failed and begun anew since: another follower's fetch must not vouch for it."""
    told = Conversation()
    told.record(1, 1, 1)
    told.appends(5)
    told.fetches(2, 5)
    told.fetches(3, 5)
    told.record(1, 1, 2, isr=(1,))
    assert not told.replica.isr_due
    told.fetches(2, 5)
    assert told.proposes().isr == (1, 2)
    told.hears(
        on.IsrAnswered(attempt=1, error_code=0, leader_epoch=1, partition_epoch=3, isr=(1, 2))
    )
    assert told.fetches(3, 0) is None
    assert told.appends(6) is None
    assert told.fetches(2, 6) == 6, "3 begins anew, which nobody waits for"
    told.fetches(3, 6)
    assert told.proposes().isr == (1, 2, 3)


def test_a_follower_that_hangs_does_not_join_without_a_fetch() -> None:
    told = Conversation()
    told.record(1, 1, 1, replicas=(1, 2), isr=(1, 2), min_isr=2)
    told.fetches(2, 0)
    told.appends(5)
    (proposal,) = told.hears(on.LagChecked(now_ms=LAG_MS + 1))
    assert proposal == ProposeIsr(
        attempt=1, leader_epoch=1, partition_epoch=1, isr=(1,), node_epochs=(101,)
    )
    told.hears(on.IsrAnswered(attempt=1, error_code=0, leader_epoch=1, partition_epoch=2, isr=(1,)))
    assert told.replica.under_min_isr
    assert not told.replica.isr_due, "it has everything committed, but it does not fetch"
    told.fetches(2, 0, now_ms=LAG_MS + 2)
    assert told.proposes().isr == (1, 2)


def test_deleting_records_moves_the_start_which_counts_when_it_is_on_disk() -> None:
    told = Conversation((0, 0), end=9, high_watermark=9)
    told.record(1, 1, 1, isr=(1,), replicas=(1,))
    assert told.hears(on.DeleteRecordsAsked(offset=5)) == [AdvanceLogStart(offset=5)]
    assert told.hears(on.DeleteRecordsAsked(offset=4)) == [], "it never goes back"
    assert (told.replica.log_start_offset, told.replica.low_watermark()) == (5, 0)
    assert told.hears(on.LogStartKept(log_start_offset=3)) == []
    assert told.replica.low_watermark() == 3
    told.hears(on.LogStartKept(log_start_offset=5))
    told.hears(on.LogStartKept(log_start_offset=4))
    assert told.replica.low_watermark() == 5


def test_a_truncation_takes_the_start_back_with_it() -> None:
    told = Conversation((0, 0), end=9, high_watermark=9, start=6)
    told.record(2, 1, 1)
    told.hears(on.LogStartKept(log_start_offset=6))
    told.hears(on.LogTruncated(log_start_offset=4, log_end_offset=4))
    assert told.replica.kept_log_start == 4
