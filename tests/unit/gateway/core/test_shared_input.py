"""The input that a loop's sessions share."""

from highwater.gateway.core.shared_input import LARGE_FRAME
from tests.unit.gateway.core.session_world import World


def test_large_frames_begin_at_the_limit_or_at_the_maximal_frame_size():
    assert World().shared.large_frame == LARGE_FRAME
    assert World(frame_bytes_max=1000).shared.large_frame == 1000
