"""A session by the node's own clock: it counts from when the last answered heartbeat was sent."""

from highwater.partition.data_plane.controller_session import ControllerSession
from tests.support.log_batches import ManualClock


def test_a_session_counts_from_the_newest_answered_heartbeat() -> None:
    clock = ManualClock(10_000)
    session = ControllerSession(clock.monotonic_ms)
    session.timeout_ms = 6_000
    assert not session.lasts(), "nobody has vouched for the node yet"
    session.vouched_for(9_000)
    clock.now_ms = 14_999
    assert session.lasts()
    clock.now_ms = 15_000
    assert not session.lasts()
    session.vouched_for(14_500)
    session.vouched_for(9_500)  # A late answer to an earlier heartbeat.
    clock.now_ms = 20_499
    assert session.lasts()
    clock.now_ms = 20_500
    assert not session.lasts()
