"""Reasons not to read: each one stops reading, and reading resumes when the last one ends."""

import pytest

from highwater.gateway.core import reading
from highwater.gateway.core.session import WAITING_FRAMES_MAX
from highwater.gateway.core.shared_input import LARGE_FRAME, OUTSTANDING_MAX
from tests.unit.gateway.core.session_world import METADATA, PRODUCE, World, request

EVENTS = (reading.MUTED, reading.SOCKET_FULL, reading.MEMORY_AWAITED, reading.TURN_OVER)


def test_every_reason_has_a_bit_of_its_own():
    bits = [value for name, value in vars(reading).items() if name.isupper() and name != "LIMITS"]
    assert len(set(bits)) == len(bits) == 10
    assert all(value.bit_count() == 1 for value in bits)
    assert not any(reading.LIMITS & event for event in EVENTS)


@pytest.mark.parametrize("first", EVENTS)
@pytest.mark.parametrize("second", EVENTS)
def test_reading_resumes_when_the_last_reason_ends(first, second):
    peer = World().connect()
    peer.session.pause(first)
    peer.session.pause(second)
    assert not peer.wire.reading
    peer.session.resume(first)
    assert peer.wire.reading == (first == second)
    peer.session.resume(second)
    assert peer.wire.reading
    assert peer.session.paused == 0


def test_each_limit_is_a_reason_of_its_own():
    peer = World(in_flight_bytes_max=40).connect()
    peer.feed(b"".join(request(PRODUCE, number) for number in range(3)))
    assert peer.session.paused == reading.MANY_BYTES
    peer.answer(0)
    assert peer.session.paused == 0

    peer = World().connect()
    peer.feed(b"".join(request(METADATA, number) for number in range(WAITING_FRAMES_MAX + 1)))
    peer.world.run()
    assert peer.session.paused == reading.MANY_FRAMES

    peer = World().connect()
    for number in range(OUTSTANDING_MAX):
        peer.feed(request(PRODUCE, number))
    assert peer.session.paused == reading.MANY_REQUESTS


def test_large_frames_count_for_the_limit_of_bytes_in_flight():
    size = LARGE_FRAME + 1
    peer = World(in_flight_bytes_max=2 * size - 1).connect()
    for number in range(2):
        data = request(PRODUCE, number, size)
        for half in (data[: size // 2], data[size // 2 :]):  # In parts, so it gets its own buffer.
            peer.feed(half)
        assert (peer.session.paused == reading.MANY_BYTES) == (number == 1)
    peer.answer(0)
    assert peer.session.paused == 0


def test_awaited_memory_and_scarce_memory_are_two_reasons():
    world = World(budget_bytes=2 * LARGE_FRAME)
    one, other = world.connect(), world.connect()
    size = 2 * LARGE_FRAME - 10
    one.feed(request(PRODUCE, 1, size))
    other.feed(request(PRODUCE, 2) + request(PRODUCE, 3, size)[:100])
    assert other.session.paused == reading.MEMORY_AWAITED | reading.MEMORY_SCARCE
    other.answer(2)
    assert other.session.paused == reading.MEMORY_AWAITED
    one.answer(1)
    assert other.session.paused == 0


def test_a_closed_connection_is_not_paused_or_resumed():
    peer = World().connect()
    peer.wire.close("the test wants it")
    peer.wire.set_reading = None
    peer.session.pause(reading.MUTED)
    peer.session.resume(reading.MUTED)
    assert peer.session.paused == reading.CLOSED
