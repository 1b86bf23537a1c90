from __future__ import annotations

from highwater.spark.crawlers.sessions import Limits, Session, SessionChange, end, observe, over_ms

LIMITS = Limits(requests=3, within_ms=100, gap_ms=1000)


def seen(*times_ms: int) -> list[tuple[str, int, int, int]]:
    _, changes = observe(LIMITS, None, times_ms)
    return [told(change) for change in changes]


def told(change: SessionChange) -> tuple[str, int, int, int]:
    return ("begin" if change.detected else "end", change.at_ms, change.start_ms, change.requests)


def test_a_client_is_detected_with_the_request_that_is_too_many():
    assert seen(0, 50, 100) == [("begin", 100, 0, 3)]
    assert seen(0, 50, 101, 140) == [("begin", 140, 0, 4)]


def test_a_slow_client_is_not():
    assert seen(*range(0, 10_000, 51)) == []


def test_a_session_is_detected_once_and_ends_a_gap_after_its_last_request():
    assert seen(0, 1, 2, 3, 1003) == [("begin", 2, 0, 3)]
    assert seen(0, 1, 2, 3, 1004) == [("begin", 2, 0, 3), ("end", 1003, 0, 4)]
    assert seen(0, 1, 2, 2000, 2001, 2002) == [
        ("begin", 2, 0, 3),
        ("end", 1002, 0, 3),
        ("begin", 2002, 2000, 3),
    ]


def test_a_quiet_session_ends_unheard():
    session, changes = observe(LIMITS, None, [0, 5000])
    assert changes == []
    assert session == Session(start_ms=5000, last_ms=5000, requests=1, recent_ms=(5000,))
    assert end(LIMITS, session) == []
    assert over_ms(LIMITS, session) == 6000


def test_the_end_of_a_detected_session():
    session, _ = observe(LIMITS, None, [0, 1, 2])
    assert session is not None
    assert [told(change) for change in end(LIMITS, session)] == [("end", 1002, 0, 3)]


def test_a_late_request_counts_at_the_time_of_the_last_one():
    session, _ = observe(LIMITS, None, [500, 0])
    assert session is not None
    assert (session.start_ms, session.last_ms, session.recent_ms) == (500, 500, (500, 500))


def test_only_as_many_times_as_count_are_kept():
    session, _ = observe(LIMITS, None, range(50))
    assert session is not None
    assert session.recent_ms == (47, 48, 49)
    assert session.requests == 50


def test_batches_change_nothing():
    times = [0, 10, 20, 30, 2000, 2050, 2101, 2102, 9000]
    whole = observe(LIMITS, None, times)
    for cut in range(len(times)):
        session, first = observe(LIMITS, None, times[:cut])
        session, second = observe(LIMITS, session, times[cut:])
        assert (session, first + second) == whole
