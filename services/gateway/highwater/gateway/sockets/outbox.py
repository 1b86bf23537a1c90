"""Sends everything of a connection in order: bytes, and segment file ranges by sendfile.

The transport only reads; all sending uses a duplicate of its descriptor, since uvloop can neither
send files nor share its write queue (measured, decision 21). Small parts are sent on the loop
without blocking. A large range goes to a sender thread, which waits for the client at most
`SEND_TIMEOUT_S` and then gives the rest back. Only one of the two uses a connection at a time.

A client that does not read fills its socket, then this queue. From then on its connection is
behind: its session starts no more requests, as Kafka mutes a channel until its reply is sent.
"""

import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from highwater.gateway.core.reply import Part
from highwater.gateway.sockets.unsent import without_first
from highwater.hop.fetch import FileRange

THREAD_BYTES_MIN: Final = 256 * 1024
"""From this size on, a range is worth the two hand-overs to a thread (measured)."""
SEND_TIMEOUT_S: Final = 2.0
QUEUE_BYTES_MAX: Final = 32 << 20
"""Bytes that may wait for a slow reader before the connection is closed; files do not count."""
PIECE_BYTES: Final = 256 * 1024
QUEUE_PARTS_MAX: Final = 64
"""With more parts than this behind a range in a thread, the client is behind, too."""


class SenderPool(Protocol):
    """Threads that send; they call `done(sent, error)` on the loop."""

    def send(
        self,
        sock: socket.socket,
        header: bytes,
        fd: int,
        position: int,
        length: int,
        trailer: bytes,
        done: Callable[[int, OSError | None], None],
    ) -> bool:
        """False if no thread is free now."""
        ...


class Loop(Protocol):
    """The two calls of an event loop that this module uses."""

    def add_writer(self, fd: int, callback: Callable[[], None]) -> object:
        """Calls back while the socket has room."""
        ...

    def remove_writer(self, fd: int) -> object:
        """Ends `add_writer`."""
        ...


class Outbox:
    """One connection's FIFO of parts. States: idle, waiting for the socket, in a thread, closed."""

    __slots__ = (
        "_behind",
        "_closed",
        "_fd",
        "_held",
        "_loop",
        "_on_error",
        "_on_held",
        "_pool",
        "_queue",
        "_queued_bytes",
        "_sock",
        "_threaded",
        "_writing",
        "bytes_sent",
    )

    def __init__(
        self,
        sock: socket.socket,
        *,
        loop: Loop,
        pool: SenderPool,
        on_error: Callable[[str], None],
        on_held: Callable[[int, bool], None],
    ) -> None:
        """`sock` is ours (a duplicate) and non-blocking.

        `on_held` gets the bytes that wait here, and whether the client is behind, at each change.
        """
        self._sock = sock
        self._fd = sock.fileno()
        self._loop = loop
        self._pool = pool
        self._on_error = on_error
        self._on_held = on_held
        self._held = 0
        self._behind = False
        self._queue: deque[Part] = deque()
        self._queued_bytes = 0
        self._writing = False
        self._threaded = False
        self._closed = False
        self.bytes_sent = 0

    @property
    def has_unread(self) -> bool:
        """True if the client has sent something that nobody has read yet."""
        if self._closed:
            return False
        try:
            return bool(self._sock.recv(1, socket.MSG_PEEK))
        except OSError:  # Nothing is there, or the connection has ended.
            return False

    def send(self, parts: list[Part]) -> None:
        """Sends parts behind all earlier ones."""
        if self._closed:
            _release(parts)
            return
        if not self._queue and not self._writing and not self._threaded:
            first = parts[0]
            if len(parts) == 1 and isinstance(first, bytes):
                self._send_now(first)
                return
            pieces = [part for part in parts if isinstance(part, bytes)]
            if len(pieces) == len(parts):
                self._send_now(b"".join(pieces))
                return
        for part in parts:
            if isinstance(part, bytes):
                self._enqueue(part)
            else:
                self._queue.append(part)
        if self._queued_bytes > QUEUE_BYTES_MAX:
            self._fail("the client does not read its replies")
            return
        if not self._writing and not self._threaded:
            self._drain()
        elif self._writing or len(self._queue) > QUEUE_PARTS_MAX:
            self._tell(behind=True)

    def _send_now(self, data: bytes) -> None:
        try:
            sent = self._sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._fail(str(error))
            return
        self.bytes_sent += sent
        if sent < len(data):
            self._enqueue(data[sent:])
            self._wait_writable()

    def _enqueue(self, data: bytes) -> None:
        """Queues pieces: a partly sent piece is copied, so pieces must be small."""
        self._queued_bytes += len(data)
        if len(data) <= PIECE_BYTES:
            self._queue.append(data)
        else:
            starts = range(0, len(data), PIECE_BYTES)
            self._queue.extend(data[start : start + PIECE_BYTES] for start in starts)

    def _drain(self) -> None:
        """Sends until the queue is empty, the socket is full, or a thread takes over."""
        self._drain_queue()
        if self._behind:
            self._tell(behind=self._writing or len(self._queue) > QUEUE_PARTS_MAX)

    def _drain_queue(self) -> None:
        queue = self._queue
        try:
            while queue:
                part = queue[0]
                if isinstance(part, bytes):
                    if not self._drain_bytes(part):
                        return
                elif not self._drain_file(part):
                    return
        except BlockingIOError:
            self._wait_writable()
            return
        except OSError as error:
            self._fail(str(error))
            return
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._fd)

    def _drain_bytes(self, data: bytes) -> bool:
        queue = self._queue
        following = queue[1] if len(queue) > 1 else None
        flags = 0
        if following is not None and not isinstance(following, bytes):
            if following.length >= THREAD_BYTES_MIN and self._hand_over(data, following):
                return False
            flags = socket.MSG_MORE
        sent = self._sock.send(data, flags)
        self.bytes_sent += sent
        self._queued_bytes -= sent
        if sent < len(data):
            queue[0] = data[sent:]
            self._wait_writable()
            return False
        queue.popleft()
        return True

    def _drain_file(self, part: FileRange) -> bool:
        if part.length >= THREAD_BYTES_MIN and self._hand_over(b"", part):
            return False
        sent = os.sendfile(self._fd, part.fd, part.position, part.length)
        if sent == 0:
            # The header has promised the length, so the connection must close.
            raise OSError("a segment file is shorter than promised")
        self.bytes_sent += sent
        part.position += sent
        part.length -= sent
        if part.length:
            self._wait_writable()
            return False
        self._queue.popleft()
        part.release()
        return True

    def _hand_over(self, header: bytes, part: FileRange) -> bool:
        """Gives the head of the queue to a thread; False if none is free.

        Bytes that follow the range go along, so the client has its whole reply before this loop
        takes the result.
        """
        queue = self._queue
        taken: list[Part] = [header, part] if header else [part]
        trailer = b""
        after = queue[len(taken)] if len(queue) > len(taken) else None
        if isinstance(after, bytes):
            trailer = after
            taken.append(trailer)

        def done(sent: int, error: OSError | None) -> None:
            self._thread_done(taken, sent, error)

        if not self._pool.send(
            self._sock, header, part.fd, part.position, part.length, trailer, done
        ):
            return False
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._fd)
        for _ in taken:
            queue.popleft()
        self._threaded = True
        return True

    def _thread_done(self, taken: list[Part], sent: int, error: OSError | None) -> None:
        """Puts back the unsent rest, and continues."""
        self._threaded = False
        self.bytes_sent += sent
        rest, of_bytes = without_first(taken, sent)
        self._queued_bytes -= of_bytes
        if self._closed:
            _release(rest)
            self._sock.close()
        elif error is not None:
            _release(rest)
            self._fail(str(error))
        elif rest:
            self._queue.extendleft(reversed(rest))
            self._wait_writable()
        elif self._queue:
            self._drain()

    def lend_socket(self) -> socket.socket:
        """Gives the socket to a thread that sends without waiting. Only while `is_free`.

        Parts that come meanwhile wait until `take_back`.
        """
        assert self.is_free
        self._threaded = True
        return self._sock

    def take_back(self, sent: int, rest: bytes) -> None:
        """Ends `lend_socket`: the thread has sent so many bytes, and `rest` is still to send."""
        self._threaded = False
        self.bytes_sent += sent
        if self._closed:
            self._sock.close()
        elif rest:
            self._queue.appendleft(rest)
            self._queued_bytes += len(rest)
            self._wait_writable()
        elif self._queue:
            self._drain()

    def _wait_writable(self) -> None:
        if not self._writing:
            self._writing = True
            self._loop.add_writer(self._fd, self._drain)
        self._tell(behind=True)

    def _tell(self, *, behind: bool) -> None:
        held = self._queued_bytes if behind else 0
        if held != self._held or behind != self._behind:
            self._held = held
            self._behind = behind
            self._on_held(held, behind)

    @property
    def idle(self) -> bool:
        """True if all data was handed to the kernel."""
        return not self._queue and not self._threaded

    @property
    def is_free(self) -> bool:
        """True if nothing waits before what would be sent now."""
        return not self._closed and self.idle

    def _fail(self, reason: str) -> None:
        self.close()
        self._on_error(reason)

    def hang_up(self) -> None:
        """Ends the connection in both directions at once. Only while idle; `close` is to follow."""
        with contextlib.suppress(OSError):  # The client has gone.
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Drops the queue; the descriptor closes now, or when the thread returns it."""
        if self._closed:
            return
        self._closed = True
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._fd)
        _release(self._queue)
        self._queue.clear()
        self._queued_bytes = 0
        self._tell(behind=False)
        if not self._threaded:
            self._sock.close()
            return
        # The thread uses the descriptor; the shutdown wakes it, and it returns its part.
        with contextlib.suppress(OSError):  # Already disconnected, which also wakes it.
            self._sock.shutdown(socket.SHUT_RDWR)


def _release(parts: Iterable[Part]) -> None:
    for part in parts:
        if not isinstance(part, bytes):
            part.release()


def duplicate(raw: socket.socket) -> socket.socket:
    """A duplicate socket for an outbox; raises OSError and leaves nothing open."""
    copy = os.dup(raw.fileno())
    try:
        sock = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
    try:
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError:
        sock.close()
        raise
    return sock
