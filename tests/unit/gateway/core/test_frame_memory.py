"""Memory that is resident only after it is written, and otherwise an ordinary bytearray."""

from pathlib import Path

import pytest

from highwater.gateway.core.frame_memory import uncleared
from tests.unit.gateway.core.session_world import World

MIB = 1 << 20
STATM = Path("/proc/self/statm")


def resident() -> int:
    """Resident bytes of this process, by pages of 4 KiB."""
    return int(STATM.read_text().split()[1]) * 4096


@pytest.mark.parametrize("size", [0, 1, 65_537, MIB, 5 * MIB + 1])
def test_uncleared_memory_is_a_bytearray_of_that_size(size):
    memory = uncleared(size)
    assert type(memory) is bytearray
    assert len(memory) == size
    content = bytes(i * 7 % 251 for i in range(251)) * (size // 251 + 1)
    memory[:] = content[:size]
    assert memory == content[:size]
    memory += b"more"
    assert memory.endswith(b"more")


@pytest.mark.skipif(not STATM.exists(), reason="resident memory is read from Linux's /proc")
def test_uncleared_memory_is_resident_only_where_written():
    before = resident()
    memory = uncleared(100 * MIB)
    assert resident() - before < 8 * MIB  # Two huge pages at most.
    memory[: 50 * MIB] = b"x" * (50 * MIB)
    assert resident() - before > 45 * MIB


@pytest.mark.skipif(not STATM.exists(), reason="resident memory is read from Linux's /proc")
def test_frames_with_one_byte_received_are_counted_whole_and_hardly_resident():
    size = 100 * MIB
    world = World(budget_bytes=3 * size + 1, frame_bytes_max=size, in_flight_bytes_max=3 * size)
    peers = [world.connect() for _ in range(3)]
    before = resident()
    for peer in peers:
        peer.feed(size.to_bytes(4, "big") + b"\0")
        assert peer.session.mid_frame
        assert len(peer.session.get_buffer(-1)) == size - 1
    assert world.budget.used == 3 * size
    assert resident() - before < 24 * MIB
    for peer in peers:
        peer.lose()
    assert world.budget.used == 0
