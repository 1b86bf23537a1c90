"""Clients that do not take their replies: what they may hold, and that nothing more is begun."""

import pytest

from highwater.gateway.core import session as module
from highwater.gateway.core.reply import length_of, memory_of
from tests.unit.gateway.core.session_world import (
    FETCH,
    METADATA,
    PRODUCE,
    FileRange,
    World,
    request,
)

LIMIT = 1 << 20


def test_who_is_behind_starts_nothing_more_and_goes_on_afterwards():
    peer = World().connect()
    peer.feed(request(PRODUCE, 1) + request(METADATA, 2) + request(PRODUCE, 3))
    peer.session.output_held(500, behind=True)
    peer.answer(1)
    peer.world.run()
    assert peer.numbers == [1], "the others wait for the client"
    peer.feed(request(PRODUCE, 4))
    assert peer.unread, "nothing is read either"
    peer.session.output_held(0, behind=False)
    peer.world.run()
    peer.answer(2)
    peer.world.run()
    peer.feed(b"")
    peer.world.run()
    assert peer.numbers == [1, 2, 3, 4]
    assert peer.world.budget.replies == 0


def test_what_the_socket_has_not_taken_counts_until_it_has_or_the_client_is_gone():
    world = World(budget_bytes=LIMIT)
    one, other = world.connect(), world.connect()
    one.session.output_held(1000, behind=True)
    one.session.output_held(400, behind=True)
    other.session.output_held(50, behind=True)
    assert world.budget.replies == 450
    one.lose()
    one.session.output_held(0, behind=False)
    assert world.budget.replies == 50
    other.session.output_held(0, behind=False)
    assert world.budget.replies == 0
    assert not other.session.behind


def test_replies_that_wait_behind_another_count_until_they_leave():
    world = World(budget_bytes=LIMIT)
    peer = world.connect()
    peer.feed(b"".join(request(FETCH, number) for number in range(4)))
    peer.answer(1, b"x" * 1000)
    peer.answer(3, [b"head", FileRange(1 << 30), b"tail"])
    assert world.budget.replies == 1008
    peer.answer(0, b"first;")
    world.run()
    assert world.budget.replies == 8, "the third waits for the second"
    peer.answer(2, b"second;")
    world.run()
    assert world.budget.replies == 0
    assert peer.session.reply_bytes == 0


def test_who_goes_gives_back_what_waited():
    world = World(budget_bytes=LIMIT)
    peer = world.connect()
    peer.feed(request(FETCH, 1) + request(FETCH, 2))
    peer.answer(2, b"x" * 1000)
    peer.lose()
    assert world.budget.replies == 0
    peer.answer(1, b"late")
    assert world.budget.replies == 0


def test_too_much_behind_one_reply_ends_the_connection(monkeypatch):
    monkeypatch.setattr(module, "WAITING_REPLY_BYTES_MAX", 1500)
    world = World(budget_bytes=LIMIT)
    peer = world.connect()
    peer.feed(b"".join(request(FETCH, number) for number in range(3)))
    peer.answer(1, b"x" * 1000)
    assert peer.wire.closed is None
    part = FileRange()
    peer.answer(2, [b"x" * 1000, part])
    assert peer.wire.closed is not None
    assert part.released == 1
    peer.lose()
    assert world.budget.replies == 0


@pytest.mark.parametrize("fetches_max", [1, 2])
def test_so_many_fetches_are_under_way_and_the_others_wait_in_order(fetches_max):
    peer = World(fetches_max=fetches_max).connect()
    peer.feed(b"".join(request(FETCH, number) for number in (1, 2, 3)) + request(PRODUCE, 4))
    assert peer.numbers == [1, 2][:fetches_max]
    peer.answer(1)
    peer.world.run()
    assert peer.numbers == ([1, 2] if fetches_max == 1 else [1, 2, 3, 4])
    for number in (2, 3):
        peer.answer(number)
        peer.world.run()
    assert peer.numbers == [1, 2, 3, 4]
    peer.answer(4)
    peer.world.run()
    assert peer.text == "1;2;3;4;"
    assert peer.session.fetching == 0


def test_a_fetch_that_is_ready_behind_another_request_makes_room_for_the_next():
    """The reply that all wait for is a Produce's."""
    peer = World(fetches_max=1).connect()
    peer.feed(request(PRODUCE, 1) + request(FETCH, 2) + request(FETCH, 3))
    peer.answer(2)
    peer.world.run()
    assert peer.numbers == [1, 2, 3]
    assert peer.text == ""


def test_files_take_no_memory():
    assert memory_of(b"abc") == 3
    parts = [b"ab", FileRange(1 << 40), b"cde"]
    assert memory_of(parts) == 5
    assert length_of(parts) == (1 << 40) + 5
