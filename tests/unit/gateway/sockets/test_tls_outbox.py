"""The order of what is written, what waits, and what is given back."""

import os
from concurrent.futures import Future

import pytest

from highwater.gateway.sockets.outbox import PIECE_BYTES, QUEUE_BYTES_MAX, QUEUE_PARTS_MAX
from highwater.gateway.sockets.tls_outbox import TlsOutbox
from highwater.hop.fetch import SMALL_RANGE


class Transport:
    """Keeps what is written; the test says how much of it is still there."""

    def __init__(self):
        self.written = []
        self.kept = 0
        self.limit = 0

    def write(self, data):
        self.written.append(bytes(data))

    def get_write_buffer_size(self):
        return self.kept

    def set_write_buffer_limits(self, high):
        self.limit = high


class Readers:
    """A pool whose threads are the test."""

    def __init__(self):
        self.waiting = []

    def submit(self, function, *arguments):
        future = Future()
        self.waiting.append((future, function, arguments))
        return future

    def run(self):
        future, function, arguments = self.waiting.pop(0)
        try:
            future.set_result(function(*arguments))
        except OSError as error:
            future.set_exception(error)


class Range:
    def __init__(self, fd, length, released):
        self.fd, self.position, self.length = fd, 0, length
        self._released = released

    def release(self):
        self._released.append(self.fd)
        os.close(self.fd)


class World:
    def __init__(self, path):
        self.path = path
        self.transport, self.readers = Transport(), Readers()
        self.errors, self.held, self.released = [], [], []
        self.outbox = TlsOutbox(
            self.transport,
            readers=self.readers,
            call_soon_threadsafe=lambda call, *arguments: call(*arguments),
            on_error=self.errors.append,
            on_held=lambda nbytes, behind: self.held.append((nbytes, behind)),
        )

    def file(self, content, length=None):
        self.path.write_bytes(content)
        fd = os.open(self.path, os.O_RDONLY)
        length = len(content) if length is None else length

        return Range(fd, length, self.released)

    @property
    def data(self):
        return b"".join(self.transport.written)


@pytest.fixture
def w(tmp_path):
    return World(tmp_path / "segment")


def test_bytes_are_written_joined(w):
    w.outbox.send([b"a", b"b"])
    w.outbox.send([b"c"])
    assert w.transport.written == [b"ab", b"c"]
    assert w.outbox.idle
    assert w.outbox.bytes_sent == 3


def test_a_large_range_is_read_by_pieces_and_in_order(w):
    content = os.urandom(2 * PIECE_BYTES + SMALL_RANGE + 5)
    w.outbox.send([b"head", w.file(content), b"tail"])
    w.outbox.send([b"next"])
    for _ in range(3):
        assert len(w.readers.waiting) == 1, "a piece at a time"
        assert not w.outbox.idle
        w.readers.run()
    assert w.data == b"head" + content + b"tailnext"
    assert len(w.released) == 1
    assert w.outbox.idle


def test_a_small_range_is_read_at_once(w):
    w.outbox.send([b"head", w.file(b"x" * 100)])
    assert w.data == b"head" + b"x" * 100
    assert len(w.released) == 1
    assert w.readers.waiting == []


def test_a_client_that_does_not_read_is_behind(w):
    w.outbox.send([w.file(bytes(3 * PIECE_BYTES))])
    w.transport.kept = 1000
    w.outbox.pause()
    assert w.held[-1] == (1000, True)
    w.readers.run()
    assert w.readers.waiting == [], "no further piece is read for it"
    w.outbox.send([b"more"])
    assert w.held[-1] == (1004, True)
    assert w.outbox.bytes_sent == PIECE_BYTES - 1000
    w.transport.kept = 0
    w.outbox.resume()
    assert w.held[-1] == (0, False)
    assert len(w.readers.waiting) == 1


def test_many_parts_behind_a_read_count_as_behind(w):
    w.outbox.send([w.file(bytes(2 * PIECE_BYTES))])
    w.outbox.send([b"x"] * (QUEUE_PARTS_MAX + 1))
    assert w.held[-1][1]


def test_a_queue_has_a_limit(w):
    w.outbox.pause()
    large = bytes(1 << 20)
    for _ in range(QUEUE_BYTES_MAX // len(large) + 1):
        w.outbox.send([large])
    assert w.errors == ["the client does not read its replies"]
    assert w.held[-1] == (0, False)


@pytest.mark.parametrize("reading", [True, False])
def test_a_close_gives_everything_back(w, reading):
    if not reading:
        w.outbox.pause()
    w.outbox.send([w.file(bytes(2 * PIECE_BYTES)), b"x"])
    w.outbox.close()
    assert len(w.released) == (not reading), "a thread uses the descriptor"
    if reading:
        w.readers.run()
    assert len(w.released) == 1
    assert w.transport.written == []
    w.outbox.send([b"late"])
    assert w.transport.written == []
    assert w.outbox.idle


def test_a_file_that_is_shorter_than_promised(w):
    w.outbox.send([w.file(b"x" * 10, length=PIECE_BYTES)])
    w.readers.run()
    w.readers.run()
    assert w.errors == ["a segment file is shorter than promised"]
    assert len(w.released) == 1


def test_a_file_that_cannot_be_read(w):
    part = w.file(bytes(PIECE_BYTES))
    part.position = -1
    w.outbox.send([part])
    w.readers.run()
    assert "Invalid argument" in w.errors[0]
    assert len(w.released) == 1
