"""From bytes to frames: cut anywhere, of any size, and frames that are never finished."""

from itertools import pairwise

import pytest

from highwater.gateway.core.frame_input import SETTLED_FRAME_BYTES
from highwater.gateway.core.shared_input import LARGE_FRAME
from tests.support.resident_memory import LINUX_ONLY, resident
from tests.unit.gateway.core.session_world import FETCH, PRODUCE, World, request


def test_frames_received_in_any_pieces_are_the_same():
    data = request(PRODUCE, 1, 8) + request(FETCH, 2, 30) + request(PRODUCE, 3, 17)
    for first in range(len(data)):
        for second in range(first, len(data), 7):
            peer = World().connect()
            peer.feed(data[:first])
            peer.feed(data[first:second])
            peer.feed(data[second:])
            assert peer.handler.started == [("produce", 1), ("fetch", 2), ("produce", 3)]
            assert not peer.session.mid_frame
            assert peer.world.budget.used == 8 + 30 + 17


@pytest.mark.parametrize("step", [1, 2, 3, 5, 100, 70_000])
def test_a_large_frame_in_pieces_is_received_whole(step):
    peer = World(budget_bytes=1 << 20).connect()
    size = LARGE_FRAME + 1
    data = request(FETCH, 1, 20) + request(PRODUCE, 2, size) + request(PRODUCE, 3, 20)
    if step < 100:
        # Byte by byte at both ends, one piece between them.
        edges = (range(0, 60, step), range(len(data) - 40, len(data), step))
        cuts = [*edges[0], *edges[1], len(data)]
    else:
        cuts = [*range(0, len(data), step), len(data)]
    frames = []
    peer.handler.produce = lambda _session, frame: frames.append(bytes(frame))
    for start, end in pairwise(cuts):
        peer.feed(data[start:end])
    assert frames == [data[28 : 28 + size], data[-20:]]
    assert peer.session.frames_received == 3
    assert peer.world.budget.used == 20 + size + 20


@pytest.mark.parametrize(
    ("size", "settled"), [(SETTLED_FRAME_BYTES, True), (SETTLED_FRAME_BYTES - 1, False)]
)
def test_work_of_a_very_large_frame_does_not_wait_for_the_end_of_the_turn(size, settled):
    peer = World(budget_bytes=1 << 20).connect()
    turn, done = peer.world.shared.turn, []
    peer.handler.produce = lambda _session, frame: turn.defer(lambda: done.append(len(frame)))
    data = request(PRODUCE, 1, 20) + request(PRODUCE, 2, size)
    with_first, rest = data[:1000], data[1000:]
    peer.feed(with_first)
    assert done == []
    peer.feed(rest)
    assert done == ([20, size] if settled else [])


def test_a_large_frame_received_in_one_read_needs_no_buffer_of_its_own():
    peer = World().connect()
    peer.feed(request(PRODUCE, 1, LARGE_FRAME + 10) + request(PRODUCE, 2))
    assert peer.numbers == [1, 2]
    assert peer.world.budget.used == LARGE_FRAME + 10 + 16


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 7, 1001, 2**31 - 1])
def test_a_frame_of_bad_size_ends_the_connection_after_earlier_frames(size):
    world = World(frame_bytes_max=1000)
    peer = world.connect()
    peer.feed(request(PRODUCE, 1) + size.to_bytes(4, "big", signed=True) + b"x" * 50)
    assert peer.wire.closed is not None
    assert str(size) in peer.wire.closed
    assert world.shared.meters.refused == 1
    assert peer.numbers == [1]
    peer.lose()
    peer.answer(1)
    assert world.budget.used == 0


def test_a_frame_of_the_maximal_size_is_accepted_and_a_larger_one_is_not():
    limit = LARGE_FRAME + 100
    peer = World(frame_bytes_max=limit).connect()
    peer.feed(request(PRODUCE, 1, limit))
    assert peer.numbers == [1]
    peer.feed((limit + 1).to_bytes(4, "big"))
    assert peer.wire.closed is not None


def test_the_shared_buffer_may_be_used_by_others_between_two_pieces():
    world = World()
    one, other = world.connect(), world.connect()
    first, second = request(PRODUCE, 1, 40), request(FETCH, 2, 50)
    for i in range(0, 60, 3):
        one.feed(first[i : i + 3])
        other.feed(second[i : i + 3])
    assert one.handler.started == [("produce", 1)]
    assert other.handler.started == [("fetch", 2)]


def test_the_beginning_of_a_frame_that_waits_for_memory_is_kept():
    world = World(budget_bytes=2 * LARGE_FRAME)
    one, other = world.connect(), world.connect()
    size = 2 * LARGE_FRAME - 10
    one.feed(request(PRODUCE, 1, size))
    data = request(PRODUCE, 2, size)
    frames = []
    other.handler.produce = lambda _session, frame: frames.append(bytes(frame))
    other.feed(data[:100])
    other.feed(data[100:])
    assert frames == [], "there is no memory for it"
    one.answer(1)
    other.feed(b"")
    assert frames == [data[4:]]


@LINUX_ONLY
def test_frames_with_one_byte_received_are_counted_whole_and_hardly_resident():
    size = 100 << 20
    world = World(budget_bytes=3 * size + 1, frame_bytes_max=size, in_flight_bytes_max=3 * size)
    peers = [world.connect() for _ in range(3)]
    before = resident()
    for peer in peers:
        peer.feed(size.to_bytes(4, "big") + b"\0")
        assert peer.session.mid_frame
        assert len(peer.session.get_buffer(-1)) == size - 1
    assert world.budget.used == 3 * size
    assert resident() - before < 24 << 20
    for peer in peers:
        peer.lose()
    assert world.budget.used == 0
