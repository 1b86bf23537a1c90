"""The order of what is sent, what waits and where, and what is given back."""

import os

import pytest

from highwater.gateway.sockets.outbox import QUEUE_BYTES_MAX, QUEUE_PARTS_MAX
from highwater.gateway.sockets.tls_outbox import SCARCE_BYTES, THREAD_BYTES_MAX, THREAD_BYTES_MIN
from highwater.gateway.sockets.tls_piece import PIECE_BYTES
from tests.support.certificates import make_certificate, tls_contexts
from tests.unit.gateway.sockets.tls_world import OutboxWorld
from tests.unit.gateway.wires import Segment

LARGE = 8 << 20


@pytest.fixture(scope="module")
def contexts(tmp_path_factory):
    return tls_contexts(make_certificate(tmp_path_factory.mktemp("tls")))


@pytest.fixture(scope="module")
def segment(tmp_path_factory):
    with Segment(tmp_path_factory.mktemp("segment") / "log", LARGE) as made:
        yield made


@pytest.fixture
def w(contexts):
    world = OutboxWorld(contexts)
    yield world
    world.close()
    assert not world.outbox.has_unread


def test_small_answers_leave_at_once_without_a_thread(w, segment):
    small = segment.range(8, 1000)
    w.outbox.send([b"head", small, b"tail"])
    assert w.threads.waiting == []
    assert small.released == 1
    w.read()
    assert w.got == b"head" + segment.data[8:1008] + b"tail"
    assert w.outbox.idle
    assert w.outbox.bytes_sent > 1008


@pytest.mark.parametrize("size", [THREAD_BYTES_MIN - 1, THREAD_BYTES_MIN])
def test_from_the_threshold_on_a_thread_has_it(w, segment, size):
    for parts in ([bytes(size)], [segment.range(0, size)], [bytes(5), segment.range(0, size - 5)]):
        w.outbox.send(parts)
        assert len(w.threads.waiting) == (size >= THREAD_BYTES_MIN)
        w.settle()
        assert w.outbox.idle


def test_a_range_that_is_not_in_memory_is_read_by_a_thread(w, segment, monkeypatch):
    def cold(*_):
        raise BlockingIOError

    monkeypatch.setattr("highwater.gateway.sockets.tls_outbox.os.preadv", cold)
    w.outbox.send([b"head", segment.range(0, 100)])
    monkeypatch.undo()
    assert len(w.threads.waiting) == 1
    w.settle()
    assert w.got == b"head" + segment.data[:100]


def test_a_large_answer_and_all_behind_it_come_in_order(w, segment):
    large = segment.range(0, LARGE)
    w.outbox.send([b"head", large])
    w.outbox.send([b"tail"])
    w.outbox.send([bytes(THREAD_BYTES_MIN)])
    assert not w.outbox.idle
    assert len(w.threads.waiting) == 1, "one thread at a time"
    w.settle()
    assert w.got == b"head" + segment.data + b"tail" + bytes(THREAD_BYTES_MIN)
    assert large.released == 1
    assert w.outbox.idle
    assert w.held[-1] == (0, False)


def test_a_thread_gets_a_limited_part_at_a_time(w, segment):
    w.outbox.send([segment.range(0, LARGE)])
    work, _ = w.threads.waiting[0]
    assert work()  # Nobody reads, so it ends with the socket; what it may take is limited anyway.
    assert LARGE > THREAD_BYTES_MAX
    w.threads.waiting.clear()
    w.loan.free = True
    w.lower.take_back(0, b"")


def test_nothing_is_encrypted_for_a_client_that_does_not_read(w, segment):
    w.outbox.send([segment.range(0, LARGE)])
    while w.threads.waiting:
        w.threads.work()
    held, behind = w.held[-1]
    assert behind
    assert 0 < held < PIECE_BYTES + 1000, "one piece at most"
    before = w.outbox.bytes_sent
    w.outbox.send([b"more"])
    assert w.held[-1] == (held + 4, True)
    assert w.outbox.bytes_sent == before
    w.settle()
    assert w.got == segment.data + b"more"
    assert w.held[-1] == (0, False)


def test_pieces_are_small_while_replies_are_scarce_of_memory(w, segment):
    w.memory.replies_scarce = True
    w.outbox.send([segment.range(0, LARGE)])
    w.threads.work()
    assert w.outbox.bytes_sent < SCARCE_BYTES + 1000
    w.memory.replies_scarce = False
    w.settle()
    assert w.got == segment.data


def test_large_bytes_are_not_copied_for_each_turn(w):
    data = os.urandom(3 * THREAD_BYTES_MAX)
    w.outbox.send([data])
    w.settle()
    assert w.got == data
    assert w.held[-1] == (0, False)


def test_many_parts_behind_a_thread_count_as_behind(w, segment):
    w.outbox.send([segment.range(0, THREAD_BYTES_MAX)])
    w.outbox.send([b"x"] * (QUEUE_PARTS_MAX + 1))
    assert w.held[-1] == (QUEUE_PARTS_MAX + 1, True)
    w.settle()
    assert w.held[-1] == (0, False)


def test_a_queue_has_a_limit(w, segment):
    w.outbox.send([segment.range(0, LARGE)])
    large = bytes(1 << 20)
    for _ in range(QUEUE_BYTES_MAX // len(large) + 1):
        w.outbox.send([large])
    assert w.errors == ["the client does not read its replies"]
    assert w.held[-1] == (0, False)


def test_a_connection_that_dies_while_a_thread_encrypts(w, segment):
    first, second = segment.range(0, LARGE), segment.range(0, LARGE)
    w.outbox.send([b"head", first])
    w.outbox.send([second])
    w.outbox.close()
    assert (first.released, second.released) == (0, 1), "the thread uses the first one's file"
    assert w.ours.fileno() >= 0, "and the socket"
    w.threads.work()
    assert first.released == 1
    assert w.ours.fileno() < 0
    late = segment.range(0, 10)
    w.outbox.send([late])
    assert late.released == 1
    assert w.outbox.idle
    assert w.held[-1] == (0, False)
    assert w.errors == [], "the socket was shut under the thread, and nobody has to hear of it"


def test_a_close_between_two_turns_of_a_thread(w, segment):
    large = segment.range(0, LARGE)
    w.outbox.send([large])
    w.threads.work()
    w.outbox.close()
    w.settle()
    assert large.released == 1
    assert w.threads.waiting == []


def test_a_file_that_is_shorter_than_promised(w, segment):
    short = segment.range(LARGE - 10, 10)
    short.length = THREAD_BYTES_MIN
    w.outbox.send([short])
    w.settle()
    assert w.errors == ["a segment file is shorter than promised"]
    assert short.released == 1


def test_a_client_that_goes_away(w, segment):
    w.theirs.close()
    large = segment.range(0, LARGE)
    w.outbox.send([large])
    w.threads.work()
    assert len(w.errors) == 1
    assert large.released == 1
    assert w.ours.fileno() < 0
    w.theirs = w.ours


def test_a_client_that_goes_away_while_its_socket_is_full(w, segment):
    large, second = segment.range(0, LARGE), segment.range(0, LARGE)
    w.outbox.send([large])
    while w.threads.waiting:
        w.threads.work()
    w.outbox.send([second])
    w.theirs.close()
    w.loop.writable()
    assert len(w.errors) == 1
    assert w.threads.waiting == [], "nothing is lent any more"
    w.outbox.close()
    assert (large.released, second.released) == (1, 1)
    w.theirs = w.ours


def test_a_key_update_while_a_thread_encrypts(w, segment):
    w.outbox.send([segment.range(0, LARGE)])
    w.receive(w.peer.update_keys())
    w.outbox.send([b"tail"])
    w.settle()
    assert w.got == segment.data + b"tail"
