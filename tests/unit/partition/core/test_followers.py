"""What a leader knows of a follower: caught up when, and in which incarnation."""

from highwater.partition.core.followers import NEVER_MS, UNKNOWN, FollowerProgress, low_watermark


def test_caught_up_by_reaching_the_end() -> None:
    follower = FollowerProgress(2)
    follower.begin_term(100, in_sync=False)
    assert not follower.is_caught_up(5, 100, 50)
    follower.fetched(5, 5, 110)
    assert follower.is_caught_up(9, 160, 50)
    assert not follower.is_caught_up(9, 161, 50)
    assert follower.is_caught_up(5, 1_000, 50), "it has everything, however old that is"


def test_caught_up_by_reaching_what_the_end_was_at_the_last_fetch() -> None:
    follower = FollowerProgress(2)
    follower.begin_term(0, in_sync=False)
    follower.fetched(3, 5, 10)
    assert follower.caught_up_ms == NEVER_MS
    follower.fetched(5, 8, 20)
    assert follower.caught_up_ms == 10


def test_members_of_the_isr_get_the_whole_lag_time() -> None:
    follower = FollowerProgress(2)
    follower.begin_term(100, in_sync=True)
    assert follower.is_caught_up(5, 150, 50)
    assert follower.in_maximal_isr


def test_incarnations() -> None:
    follower = FollowerProgress(2)
    assert follower.admit(7)
    follower.fetched(5, 5, 10)
    assert not follower.admit(6)
    assert follower.admit(7)
    assert follower.log_end_offset == 5
    assert follower.admit(8)
    assert follower.log_end_offset == UNKNOWN


def test_the_low_watermark_is_that_of_live_replicas_and_of_the_isr() -> None:
    progress = [FollowerProgress(node) for node in (2, 3)]
    assert low_watermark(progress, (), 7) == -1, "nobody has said anything"
    assert low_watermark(progress, (2, 3), 7) == 7
    progress[0].keeps(5)
    progress[1].keeps(6)
    assert low_watermark(progress, (), 7) == 5
    assert low_watermark(progress, (2,), 7) == 6
    progress[0].in_maximal_isr = True
    assert low_watermark(progress, (2,), 7) == 5


def test_a_new_incarnation_says_anew_where_its_log_begins() -> None:
    follower = FollowerProgress(2)
    follower.keeps(5)
    assert follower.admit(7)
    assert follower.kept_log_start == UNKNOWN
    follower.keeps(5)
    follower.leave_isr()
    assert follower.kept_log_start == UNKNOWN
    follower.keeps(5)
    follower.begin_term(0, in_sync=True)
    assert follower.kept_log_start == UNKNOWN
