"""A session by the node's own clock: from when the heartbeat was sent that the controller answered."""

from highwater.partition.data_plane.controller_session import ControllerSession
from tests.support.log_batches import ManualClock


def test_it_lasts_from_the_newest_heartbeat_that_was_answered() -> None:
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
    session.vouched_for(9_500)  # An answer that was long on its way.
    clock.now_ms = 20_499
    assert session.lasts()
    clock.now_ms = 20_500
    assert not session.lasts()
