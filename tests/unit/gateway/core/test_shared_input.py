"""What sessions of a loop share."""

from highwater.gateway.core.shared_input import LARGE_FRAME
from tests.unit.gateway.core.session_world import World


def test_frames_are_large_from_the_limit_on_or_from_the_greatest_size_that_is_taken():
    assert World().shared.large_frame == LARGE_FRAME
    assert World(frame_bytes_max=1000).shared.large_frame == 1000
