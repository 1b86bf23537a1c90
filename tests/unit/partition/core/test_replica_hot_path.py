"""The plain calls of a replica: appends, fetches, fencing, the high watermark."""

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.core import replica_events as on
from highwater.partition.core.refusals import commit_timeout_code
from highwater.partition.core.replica_effects import HighWatermarkMoved
from tests.unit.partition.core.conversation import LAG_MS, Conversation


def test_a_single_replica_commits_what_it_appends() -> None:
    told = Conversation()
    told.record(1, 1, 1, replicas=(1,), isr=(1,))
    assert told.appends(3) == 3


def test_the_slowest_of_the_isr_decides() -> None:
    told = Conversation()
    told.record(1, 1, 1)
    assert told.appends(10) is None
    assert told.fetches(2, 10) is None, "3 is unknown"
    assert told.fetches(3, 4) == 4
    assert told.fetches(3, 10) == 10
    assert told.fetches(3, 7) is None, "never back"
    assert told.replica.high_watermark == 10


def test_nothing_is_committed_below_min_insync_replicas() -> None:
    told = Conversation()
    told.record(1, 1, 1, isr=(1,), min_isr=2)
    assert told.replica.refuse_append(1, -1) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert told.replica.refuse_append(1, 1) == 0
    assert told.appends(4) is None
    assert (
        commit_timeout_code(told.replica.under_min_isr)
        == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    )
    told.fetches(2, 4)
    assert told.replica.high_watermark == 0, "the proposed ISR does not count for the minimum"
    told.record(1, 1, 2, isr=(1, 2), min_isr=2)
    assert told.replica.high_watermark == 4
    assert commit_timeout_code(told.replica.under_min_isr) == ErrorCode.REQUEST_TIMED_OUT


def test_the_minimum_is_at_most_the_number_of_replicas() -> None:
    told = Conversation()
    told.record(1, 1, 1, replicas=(1, 2), isr=(1, 2), min_isr=3)
    assert not told.replica.under_min_isr


def test_the_high_watermark_waits_for_who_is_about_to_join() -> None:
    told = Conversation()
    told.record(1, 1, 1, isr=(1,))
    told.appends(5)
    told.fetches(2, 5, now_ms=10)
    told.proposes()
    told.hears(on.IsrAnswered(attempt=1, error_code=ErrorCode.INELIGIBLE_REPLICA))
    told.fetches(2, 5, now_ms=20)
    assert told.appends(6) is None, "2 was caught up a moment ago"
    told.hears(on.IneligibleChanged(nodes=frozenset({2})))
    told.hears(on.LagChecked(now_ms=20))
    assert told.replica.high_watermark == 6, "2 may not join"


def test_who_falls_behind_is_not_waited_for() -> None:
    told = Conversation()
    told.record(1, 1, 1, isr=(1,))
    told.appends(5)
    told.fetches(2, 5, now_ms=10)
    told.proposes()
    told.hears(on.IsrAnswered(attempt=1, error_code=ErrorCode.INELIGIBLE_REPLICA))
    told.fetches(2, 5, now_ms=20)
    told.appends(6)
    told.hears(on.LagChecked(now_ms=21 + LAG_MS))
    assert told.replica.high_watermark == 6


def test_fencing_by_epoch() -> None:
    told = Conversation()
    assert told.replica.refuse_fetch(-1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    told.record(1, 4, 1)
    for epoch, code in (
        (-1, 0),
        (4, 0),
        (3, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        assert told.replica.refuse_fetch(epoch) == code
    assert told.replica.refuse_append(3, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    told.record(2, 5, 2)
    assert told.replica.refuse_append(5, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert told.replica.refuse_follower(3, 103, 5) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_followers_name_their_epochs() -> None:
    told = Conversation()
    told.record(1, 4, 1)
    refuse = told.replica.refuse_follower
    assert refuse(2, 102, -1) == ErrorCode.FENCED_LEADER_EPOCH
    assert refuse(9, 109, 4) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert refuse(2, -1, 4) == ErrorCode.STALE_BROKER_EPOCH
    assert refuse(2, 102, 4) == 0
    assert refuse(2, 90, 4) == ErrorCode.STALE_BROKER_EPOCH, "of a former incarnation"


def test_a_new_incarnation_of_a_follower_is_unknown_at_first() -> None:
    told = Conversation()
    told.record(1, 4, 1)
    told.appends(5)
    told.fetches(2, 5)
    assert told.replica.refuse_follower(2, 200, 4) == 0
    assert told.fetches(3, 5) is None
    assert told.fetches(2, 5, epoch=200) == 5


def test_a_fetch_beyond_the_log_diverges() -> None:
    told = Conversation((0, 0), end=5)
    told.record(1, 4, 1)
    assert told.replica.divergence(5, 0) is None
    assert told.replica.divergence(7, 0) == (0, 5)


def test_list_offsets_waits_for_the_new_epoch() -> None:
    told = Conversation((0, 0), end=5, high_watermark=2)
    told.record(1, 4, 1, isr=(1, 2))
    assert not told.replica.offsets_available
    told.fetches(2, 5)
    assert told.replica.offsets_available


def test_a_follower_takes_the_leaders_high_watermark_as_far_as_its_log_goes() -> None:
    told = Conversation()
    told.record(2, 4, 1)
    assert told.replica.may_fetch(4)
    assert not told.replica.may_fetch(3)
    assert told.replica.replicated(5, 5, 9) == 5
    assert told.replica.replicated(8, 8, 4) is None, "never back"
    assert told.replica.high_watermark == 5
    told.replica.log_start_moved(3)
    assert told.replica.log_start_offset == 3


def test_the_high_watermark_does_not_wait_for_who_is_fenced_while_it_catches_up() -> None:
    told = Conversation()
    told.record(1, 1, 1, isr=(1,))
    told.appends(5)
    told.fetches(2, 5, now_ms=10)
    told.proposes()
    told.hears(on.IsrAnswered(attempt=1, error_code=ErrorCode.INELIGIBLE_REPLICA))
    told.fetches(2, 5, now_ms=20)
    assert told.appends(6) is None
    moved = told.hears(on.IneligibleChanged(nodes=frozenset({2})))
    assert moved == [HighWatermarkMoved(high_watermark=6)], "not only when lags are looked at"
