"""What a thread does for a connection with TLS: reads from files, encrypts and sends, piece by piece.

It sends as long as the socket takes everything at once, and never waits for a client: what the socket
does not take goes back to the loop. So a thread holds one piece, and a client that does not read
costs it nothing.
"""

import os
import socket
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from highwater.gateway.sockets.tls_engine import TlsEngine
from highwater.model.uncleared_memory import uncleared

PIECE_BYTES: Final = 128 * 1024
"""Eight records of TLS. OpenSSL's buffer grows to a third more, and stays so for the connection's life;
twice as much saves a thread one system call in two, 3 % of its time (estimated)."""


class Span(NamedTuple):
    """A part of a file."""

    fd: int
    position: int
    length: int


class Sent(NamedTuple):
    """What has become of the spans."""

    taken: int
    """Bytes of theirs that were encrypted."""
    sent: int
    """Bytes that the socket has taken."""
    rest: bytes
    """Encrypted bytes that it has not taken."""


Source = memoryview | Span


def send_encrypted(engine: TlsEngine, sock: socket.socket, sources: Iterable[Source]) -> Sent:
    """Sends the sources until the socket is full. Raises OSError, of which errors of TLS are some."""
    taken = sent = 0
    for piece in pieces(sources):
        plain = _read(piece)
        taken += len(plain)
        ciphertext = engine.encrypt(plain)
        try:
            count = sock.send(ciphertext)
        except BlockingIOError:
            count = 0
        sent += count
        if count < len(ciphertext):
            return Sent(taken, sent, ciphertext[count:])
    return Sent(taken, sent, b"")


def pieces(sources: Iterable[Source]) -> Iterator[list[Source]]:
    """The same bytes in pieces of `PIECE_BYTES`, the last one smaller."""
    piece: list[Source] = []
    room = PIECE_BYTES
    for source in sources:
        rest: Source = source
        while size := _length(rest):
            first, rest = _split(rest, min(size, room))
            piece.append(first)
            room -= _length(first)
            if not room:
                yield piece
                piece, room = [], PIECE_BYTES
    if piece:
        yield piece


def _length(source: Source) -> int:
    return source.length if isinstance(source, Span) else len(source)


def _split(source: Source, at: int) -> tuple[Source, Source]:
    if isinstance(source, Span):
        after = Span(source.fd, source.position + at, source.length - at)
        return source._replace(length=at), after
    return source[:at], source[at:]


def _read(piece: list[Source]) -> bytearray:
    """The bytes of a piece, in one buffer."""
    buffer = uncleared(sum(map(_length, piece)))
    view = memoryview(buffer)
    filled = 0
    for source in piece:
        end = filled + _length(source)
        if isinstance(source, Span):
            _read_file(source, view[filled:end])
        else:
            view[filled:end] = source
        filled = end
    return buffer


def _read_file(span: Span, view: memoryview) -> None:
    filled = 0
    while filled < span.length:
        read = os.preadv(span.fd, [view[filled:]], span.position + filled)
        if not read:
            # The header has promised the length, so the connection must close.
            raise OSError("a segment file is shorter than promised")
        filled += read
