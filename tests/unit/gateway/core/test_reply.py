"""Clients that do not read their replies: a memory limit, and no new requests are started."""

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


def test_a_client_that_does_not_read_starts_no_requests_until_it_has_read():
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


def test_unsent_bytes_count_until_they_are_sent_or_the_connection_ends():
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


def test_a_lost_connection_releases_its_waiting_replies():
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
def test_fetches_above_the_limit_wait_in_order(fetches_max):
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


def test_a_completed_fetch_lets_the_next_one_start_before_its_reply_leaves():
    """The fetch's reply waits behind that of a Produce."""
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
