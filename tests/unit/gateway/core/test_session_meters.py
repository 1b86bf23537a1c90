"""What a session counts: requests, bytes and latency, when their replies leave."""

import pytest

from tests.unit.gateway.core.session_world import (
    FETCH,
    METADATA,
    PRODUCE,
    FileRange,
    World,
    request,
)

MS = 1_000_000


class Clock:
    def __init__(self):
        self.now_ns = 5_000 * MS

    def __call__(self):
        return self.now_ns


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def peer(clock):
    world = World()
    world.shared.turn.clock_ns = clock
    return world.connect()


def meter(peer, key):
    return peer.world.shared.meters.apis[key]


def latencies_ms(one):
    """(sum of the latencies, requests in each bucket that has any)."""
    return one.latency_ns / MS, [count for count in one.buckets if count]


def test_requests_of_several_reads_that_are_answered_together(peer, clock):
    peer.feed(request(PRODUCE, 1, 20) + request(PRODUCE, 2, 30))
    peer.world.run()
    clock.now_ns += 10 * MS
    peer.feed(request(FETCH, 3, 40) + request(PRODUCE, 4, 50))
    clock.now_ns += 2 * MS
    for number in (1, 2, 3, 4):
        peer.answer(number, b"12345")
    peer.world.run()
    produce, fetch = meter(peer, PRODUCE), meter(peer, FETCH)
    assert (produce.requests, produce.bytes_in, produce.bytes_out) == (3, 100, 15)
    assert (fetch.requests, fetch.bytes_in, fetch.bytes_out) == (1, 40, 5)
    assert latencies_ms(produce) == (12 + 12 + 2, [1, 2])
    assert latencies_ms(fetch) == (2, [1])


def test_requests_read_in_one_turn_count_from_its_beginning(peer, clock):
    other = peer.world.connect()
    peer.feed(request(PRODUCE, 1))
    clock.now_ns += 10 * MS
    other.feed(request(PRODUCE, 1))
    clock.now_ns += 2 * MS
    peer.answer(1)
    other.answer(1)
    peer.world.run()
    assert latencies_ms(meter(peer, PRODUCE)) == (12 + 12, [2])
    other.feed(request(PRODUCE, 2))
    clock.now_ns += 3 * MS
    other.answer(2)
    peer.world.run()
    assert latencies_ms(meter(peer, PRODUCE)) == (12 + 12 + 3, [1, 2])


def test_several_sessions_and_apis_in_one_turn(peer):
    """Sessions and kinds alternate, so that equal ones do not follow one another."""
    others = [peer.world.connect() for _ in range(3)]
    for number, one in enumerate([peer, *others], 1):
        one.feed(request(PRODUCE, 1, 100 * number) + request(FETCH, 2, 1000 * number))
        one.answer(1, b"p" * number)
        one.answer(2, b"f" * 10 * number)
    peer.world.run()
    produce, fetch = meter(peer, PRODUCE), meter(peer, FETCH)
    assert (produce.requests, produce.bytes_in, produce.bytes_out) == (4, 1000, 10)
    assert (fetch.requests, fetch.bytes_in, fetch.bytes_out) == (4, 10_000, 100)


def test_a_reply_counts_when_it_leaves_and_waits_for_those_before_it(peer, clock):
    peer.feed(request(PRODUCE, 1) + request(PRODUCE, 2))
    peer.answer(2)
    peer.world.run()
    assert meter(peer, PRODUCE).requests == 0
    clock.now_ns += 7 * MS
    peer.answer(1)
    peer.world.run()
    assert latencies_ms(meter(peer, PRODUCE)) == (14, [2])


def test_a_waiting_frame_counts_from_its_arrival(peer, clock):
    peer.feed(request(PRODUCE, 1) + request(METADATA, 2))
    clock.now_ns += 5 * MS
    peer.answer(1)
    peer.world.run()
    clock.now_ns += 5 * MS
    peer.answer(2)
    peer.world.run()
    assert latencies_ms(meter(peer, METADATA)) == (10, [1])


def test_bytes_sent_from_files_count(peer):
    peer.feed(request(FETCH, 1))
    peer.answer(1, [b"head", FileRange(1 << 20), b"tail"])
    peer.world.run()
    assert meter(peer, FETCH).bytes_out == (1 << 20) + 8


def test_a_produce_without_an_answer_counts_when_it_is_done(peer, clock):
    peer.feed(request(PRODUCE, 1, 60))
    reply, _ = peer.handler.open.pop(1)
    peer.session.replies.clear()
    clock.now_ns += 3 * MS
    peer.session.complete_unanswered(reply)
    peer.world.run()
    produce = meter(peer, PRODUCE)
    assert (produce.requests, produce.bytes_in, produce.bytes_out) == (1, 60, 0)
    assert latencies_ms(produce) == (3, [1])
    assert peer.session.outstanding == peer.world.budget.used == 0


def test_produce_without_answers_counts_by_arrival_and_after_a_lost_connection(peer, clock):
    peer.feed(request(PRODUCE, 1, 60) + request(PRODUCE, 2, 70))
    peer.world.run()
    clock.now_ns += 10 * MS
    peer.feed(request(PRODUCE, 3, 80))
    clock.now_ns += 2 * MS
    peer.session.replies.clear()
    for number in (1, 2, 3):
        peer.session.complete_unanswered(peer.handler.open.pop(number)[0])
    peer.session.connection_closed()
    peer.world.run()
    produce = meter(peer, PRODUCE)
    assert (produce.requests, produce.bytes_in) == (3, 210)
    assert latencies_ms(produce) == (12 + 12 + 2, [1, 2])


def test_a_reply_that_is_not_sent_is_not_counted(peer):
    peer.feed(request(PRODUCE, 1))
    peer.lose()
    peer.answer(1)
    peer.world.run()
    assert meter(peer, PRODUCE).requests == 0


def test_a_request_without_an_answer_is_counted_as_refused(peer):
    peer.feed(request(PRODUCE, 1))
    peer.session.refuse(16, "not served")
    assert peer.world.shared.meters.refused == 1
    assert peer.wire.closed == "not served"
    assert peer.session.outstanding == 0
