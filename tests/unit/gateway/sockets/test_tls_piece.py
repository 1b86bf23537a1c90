"""What a thread reads, encrypts and sends."""

import itertools
import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.gateway.sockets.tls_engine import TlsEngine
from highwater.gateway.sockets.tls_piece import PIECE_BYTES, Span, pieces, send_encrypted
from tests.support.certificates import make_certificate, tls_contexts
from tests.unit.gateway.sockets.tls_world import TlsPeer


@pytest.fixture(scope="module")
def contexts(tmp_path_factory):
    return tls_contexts(make_certificate(tmp_path_factory.mktemp("tls")))


@pytest.fixture
def ends(contexts):
    engine, peer = TlsEngine(contexts[0]), TlsPeer(contexts[1])
    peer.shake_hands(engine)
    return engine, peer


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "segment"
    path.write_bytes(os.urandom(3 * PIECE_BYTES))
    with path.open("rb") as opened:
        yield opened, path.read_bytes()


class Socket:
    """Takes so many bytes."""

    def __init__(self, room):
        self.room, self.taken = room, b""

    def send(self, data):
        if not self.room:
            raise BlockingIOError
        count = min(self.room, len(data))
        self.room -= count
        self.taken += data[:count]
        return count


def test_bytes_and_files_are_one_stream(ends, file):
    engine, peer = ends
    opened, content = file
    sources = [
        memoryview(b"head"),
        Span(opened.fileno(), 5, len(content) - 5),
        memoryview(b"between"),
        Span(opened.fileno(), 0, 10),
    ]
    expected = b"head" + content[5:] + b"between" + content[:10]
    sock = Socket(1 << 30)
    result = send_encrypted(engine, sock, sources)
    assert peer.receive(sock.taken) == expected
    assert result.taken == len(expected)
    assert result.sent == len(sock.taken)
    assert result.rest == b""


@pytest.mark.parametrize("room", [0, 1, 100_000, PIECE_BYTES + 5000])
def test_a_full_socket_ends_it_and_nothing_is_lost(ends, file, room):
    engine, peer = ends
    opened, content = file
    sock = Socket(room)
    result = send_encrypted(engine, sock, [Span(opened.fileno(), 0, len(content))])
    assert result.sent == room
    assert len(result.rest) < PIECE_BYTES + 1000, "one piece at most waits"
    assert result.taken == PIECE_BYTES * (1 + room // PIECE_BYTES)
    assert peer.receive(sock.taken + result.rest) == content[: result.taken]


def test_a_file_that_is_shorter_than_promised(ends, file):
    opened, content = file
    with pytest.raises(OSError, match="shorter"):
        send_encrypted(ends[0], Socket(1 << 30), [Span(opened.fileno(), 0, len(content) + 1)])


def test_a_connection_that_is_gone(ends):
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours, pytest.raises(BrokenPipeError):
        send_encrypted(ends[0], ours, [memoryview(b"x")])


@given(
    st.lists(st.one_of(st.integers(1, 3 * PIECE_BYTES), st.sampled_from([PIECE_BYTES])), max_size=5)
)
def test_pieces_are_the_same_bytes_in_order(lengths):
    sources, position = [], 0
    for length in lengths:
        sources.append(Span(3, position, length))
        position += length
    found = list(pieces(sources))
    flat = [span for piece in found for span in piece]
    assert sum(span.length for span in flat) == position
    assert all(a.position + a.length == b.position for a, b in itertools.pairwise(flat))
    sizes = [sum(span.length for span in piece) for piece in found]
    assert all(size == PIECE_BYTES for size in sizes[:-1])
    assert all(0 < size <= PIECE_BYTES for size in sizes)
