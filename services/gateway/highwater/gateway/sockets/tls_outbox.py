"""Sends everything of a connection with TLS in order, by its transport, which encrypts.

Bytes are written as they are. Ranges of segment files are read first, a piece at a time: small ones on
the loop if they are in the page cache, others on a thread. So a reply of any size takes the memory of
one piece and of what the transport holds; it asks for no more while its client is behind.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Final, Protocol

from highwater.gateway.core.reply import Part
from highwater.gateway.sockets.outbox import PIECE_BYTES, QUEUE_BYTES_MAX, QUEUE_PARTS_MAX
from highwater.hop.fetch import SMALL_RANGE, FileRange

WRITE_BUFFER_BYTES: Final = 256 * 1024
"""From so many bytes in the transport on the client is behind."""


class Transport(Protocol):
    """The calls of a transport that this module uses."""

    def write(self, data: bytes) -> None:
        """Encrypts and sends, or keeps."""
        ...

    def get_write_buffer_size(self) -> int:
        """Bytes that are kept."""
        ...

    def set_write_buffer_limits(self, high: int) -> None:
        """From `high` on the protocol is told to pause."""
        ...


class TlsOutbox:
    """One connection's FIFO of parts. States: idle, reading a piece, behind, closed."""

    def __init__(
        self,
        transport: Transport,
        *,
        readers: Executor,
        call_soon_threadsafe: Callable[..., object],
        on_error: Callable[[str], None],
        on_held: Callable[[int, bool], None],
    ) -> None:
        """`readers` read from files. `on_held` gets the bytes that wait here, and whether the client is
        behind, at each change.
        """
        self._transport = transport
        self._readers = readers
        self._call_soon_threadsafe = call_soon_threadsafe
        self._on_error = on_error
        self._on_held = on_held
        self._queue: deque[Part] = deque()
        self._queued_bytes = 0
        self._written = 0
        self._paused = False
        self._reading = False
        self._closed = False
        self._told = (0, False)
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)

    @property
    def bytes_sent(self) -> int:
        """Bytes that the transport has got rid of."""
        return self._written - (0 if self._closed else self._transport.get_write_buffer_size())

    @property
    def idle(self) -> bool:
        """True if all data was handed to the kernel."""
        return not self._queue and (self._closed or not self._transport.get_write_buffer_size())

    @property
    def has_unread(self) -> bool:
        """Never known: what is in the socket may belong to TLS itself."""
        return False

    def send(self, parts: list[Part]) -> None:
        """Sends parts behind all earlier ones."""
        if self._closed:
            _release(parts)
            return
        self._queue.extend(parts)
        self._queued_bytes += sum(len(part) for part in parts if isinstance(part, bytes))
        if self._queued_bytes > QUEUE_BYTES_MAX:
            self._fail("the client does not read its replies")
            return
        self._pump()

    def pause(self) -> None:
        """The transport has enough."""
        self._paused = True
        self._tell()

    def resume(self) -> None:
        """The transport has room again."""
        self._paused = False
        if not self._closed:
            self._pump()

    def close(self) -> None:
        """Drops the queue; a piece that is being read is dropped by its end."""
        if self._closed:
            return
        self._closed = True
        if self._reading:
            # The thread has its descriptor.
            self._queue.popleft()
        _release(self._queue)
        self._queue.clear()
        self._queued_bytes = 0
        self._tell()

    def _pump(self) -> None:
        """Writes until the queue is empty, the transport has enough, or a thread has to read."""
        queue = self._queue
        while queue and not self._paused and not self._reading and not self._closed:
            part = queue[0]
            if isinstance(part, bytes):
                self._write(self._taken())
            else:
                self._read(part)
        self._tell()

    def _taken(self) -> bytes:
        """Bytes from the head of the queue, joined: each write is a record of TLS at least."""
        queue = self._queue
        pieces: list[bytes] = []
        size = 0
        while queue and isinstance(part := queue[0], bytes) and size < PIECE_BYTES:
            queue.popleft()
            pieces.append(part)
            size += len(part)
        self._queued_bytes -= size
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _write(self, data: bytes) -> None:
        self._written += len(data)
        self._transport.write(data)

    def _read(self, part: FileRange) -> None:
        length = min(part.length, PIECE_BYTES)
        data = _read_at_once(part, length) if length <= SMALL_RANGE else None
        if data is not None:
            self._take(part, data)
            return
        self._reading = True
        reading = self._readers.submit(os.pread, part.fd, length, part.position)
        reading.add_done_callback(partial(self._call_soon_threadsafe, self._piece_read, part))

    def _piece_read(self, part: FileRange, reading: "Future[bytes]") -> None:
        self._reading = False
        if self._closed:
            part.release()
            return
        error = reading.exception()
        if error is not None:
            self._fail(str(error))
            return
        self._take(part, reading.result())
        if not self._closed:
            self._pump()

    def _take(self, part: FileRange, data: bytes) -> None:
        if not data:
            # The header has promised the length, so the connection must close.
            self._fail("a segment file is shorter than promised")
            return
        part.position += len(data)
        part.length -= len(data)
        if not part.length:
            self._queue.popleft()
            part.release()
        self._write(data)

    def _tell(self) -> None:
        behind = not self._closed and (self._paused or len(self._queue) > QUEUE_PARTS_MAX)
        held = self._queued_bytes + self._transport.get_write_buffer_size() if behind else 0
        if self._told != (held, behind):
            self._told = held, behind
            self._on_held(held, behind)

    def _fail(self, reason: str) -> None:
        self.close()
        self._on_error(reason)


def _read_at_once(part: FileRange, length: int) -> bytes | None:
    """The bytes if they are in memory; None if a thread has to read them."""
    buffer = bytearray(length)
    try:
        read = os.preadv(part.fd, [buffer], part.position, os.RWF_NOWAIT)
    except OSError:
        return None  # They are not, or the thread will meet the same error, and tell it.
    return bytes(buffer) if read == length else None


def _release(parts: Iterable[Part]) -> None:
    for part in parts:
        if not isinstance(part, bytes):
            part.release()
