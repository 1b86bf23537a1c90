"""Encrypts everything of a connection with TLS in order, and gives it to the outbox of its socket.

Small answers are encrypted on the loop. From `THREAD_BYTES_MIN` on, a thread reads, encrypts and
sends (`tls_piece`). Nothing is encrypted while the socket is full: so a connection holds at most
one piece of encrypted bytes, and all of them together those that the memory budget counts as replies
and the pieces that threads have. While replies are scarce of memory, pieces are of one record.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from highwater.gateway.core.reply import Part
from highwater.gateway.sockets.outbox import QUEUE_BYTES_MAX, QUEUE_PARTS_MAX, Outbox
from highwater.gateway.sockets.tls_engine import TlsEngine
from highwater.gateway.sockets.tls_loan import Threads, TlsLoan
from highwater.gateway.sockets.tls_piece import Sent, Source, Span, send_encrypted
from highwater.gateway.sockets.unsent import without_first
from highwater.hop.fetch import BUFFERS, FileRange

THREAD_BYTES_MIN: Final = 64 * 1024
"""From so many bytes on a thread encrypts. Of the loop's time, 32 KiB take 41 us there and 65 by a thread,
64 KiB 69 and 52, 256 KiB 370 and 110, on a busy machine (tests/bench/tls_costs.py)."""
THREAD_BYTES_MAX: Final = 1 << 20
"""Bytes that go to a thread at a time; then it is another connection's turn."""
SCARCE_BYTES: Final = 16 * 1024
"""The same while replies are scarce of memory: one record."""

Waiting = bytes | memoryview | FileRange


class Memory(Protocol):
    """What this module has to know of the memory budget."""

    replies_scarce: bool


class TlsOutbox:
    """One connection's FIFO of parts. States: idle, in a thread, waiting (for the engine, or until the
    socket has room), closed.
    """

    __slots__ = (
        "_closed",
        "_engine",
        "_lent",
        "_loan",
        "_lower",
        "_lower_held",
        "_memory",
        "_on_error",
        "_on_held",
        "_queue",
        "_queued_bytes",
        "_threads",
        "_told",
    )

    def __init__(
        self,
        lower: Outbox,
        *,
        engine: TlsEngine,
        loan: TlsLoan,
        threads: Threads,
        memory: Memory,
        on_error: Callable[[str], None],
        on_held: Callable[[int, bool], None],
    ) -> None:
        """`lower` sends what is encrypted; it is ours. Whoever owns the loan calls `pump` when the
        engine comes back, and whoever has made `lower` passes on what that holds, by `lower_held`.

        `on_held` gets the bytes that wait here, and whether the client is behind, at each change.
        """
        self._lower = lower
        self._engine = engine
        self._loan = loan
        self._threads = threads
        self._memory = memory
        self._on_error = on_error
        self._on_held = on_held
        self._queue: deque[Waiting] = deque()
        self._queued_bytes = 0
        self._lent: list[Waiting] = []
        """Parts that a thread has."""
        self._lower_held = 0
        self._closed = False
        self._told = (0, False)

    @property
    def bytes_sent(self) -> int:
        """Bytes that the socket has taken, encrypted."""
        return self._lower.bytes_sent

    @property
    def idle(self) -> bool:
        """True if all data was handed to the kernel."""
        return not self._queue and not self._lent and self._lower.idle

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
        self.pump()

    def lower_held(self, nbytes: int) -> None:
        """The socket has not taken so many encrypted bytes; if none, it has room again."""
        self._lower_held = nbytes
        if not self._closed:
            self.pump()

    def pump(self) -> None:
        """Encrypts until the queue is empty, the socket is full, or a thread has the engine."""
        while self._queue and self._loan.free and self._lower.is_free and not self._closed:
            plain = self._read_here() if self._is_small else None
            if plain is None:
                self._hand_over()
            else:
                self._encrypt_here(plain)
        self._tell()

    def close(self) -> None:
        """Drops the queue; what a thread has is given back by its end."""
        if self._closed:
            return
        self._closed = True
        _release(self._queue)
        self._queue.clear()
        self._queued_bytes = 0
        self._tell()
        self._lower.close()

    # ---- on the loop ----

    @property
    def _is_small(self) -> bool:
        """True if all that waits takes less than a thread is worth."""
        size = 0
        for part in self._queue:
            size += _length(part)
            if size >= THREAD_BYTES_MIN:
                return False
        return True

    def _read_here(self) -> bytes | memoryview | None:
        """All that waits, joined; None if a thread has to read some of it from the disk."""
        pieces: list[bytes | memoryview] = []
        for part in self._queue:
            if isinstance(part, BUFFERS):
                pieces.append(part)
            elif (data := _read_at_once(part)) is not None:
                pieces.append(data)
            else:
                return None
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _encrypt_here(self, plain: bytes | memoryview) -> None:
        _release(self._queue)
        self._queue.clear()
        self._queued_bytes = 0
        if not plain:
            return
        try:
            ciphertext = self._engine.encrypt(plain)
        except OSError as error:  # Errors of TLS are some.
            self._fail(str(error))
            return
        self._lower.send([ciphertext])

    # ---- in a thread ----

    def _hand_over(self) -> None:
        """Lends the engine and the socket to a thread, with parts from the head of the queue."""
        room = SCARCE_BYTES if self._memory.replies_scarce else THREAD_BYTES_MAX
        sources: list[Source] = []
        while self._queue and room:
            part = self._queue.popleft()
            size = min(_length(part), room)
            room -= size
            if isinstance(part, BUFFERS):
                part = memoryview(part)  # What is left of it is put back without a copy.
                sources.append(part[:size])
            else:
                sources.append(Span(part.fd, part.position, size))
            self._lent.append(part)
        engine, sock = self._engine, self._lower.lend_socket()
        self._loan.lend(
            self._threads, lambda: send_encrypted(engine, sock, sources), self._thread_done
        )

    def _thread_done(self, result: Sent | Exception) -> None:
        """Puts back what the thread has not taken. `pump` follows."""
        lent, self._lent = self._lent, []
        if isinstance(result, Exception):
            _release(lent)
            self._lower.take_back(0, b"")
            if not self._closed:
                self._fail(str(result))
            return
        rest, of_buffers = without_first(lent, result.taken)
        if self._closed:
            _release(rest)
        else:
            self._queued_bytes -= of_buffers
            self._queue.extendleft(reversed(rest))
        self._lower.take_back(result.sent, result.rest)

    # ---- both ----

    def _tell(self) -> None:
        behind = not self._closed and (self._lower_held > 0 or len(self._queue) > QUEUE_PARTS_MAX)
        held = 0 if self._closed else self._lower_held + self._queued_bytes
        if self._told != (held, behind):
            self._told = held, behind
            self._on_held(held, behind)

    def _fail(self, reason: str) -> None:
        self.close()
        self._on_error(reason)


def _length(part: Waiting) -> int:
    return len(part) if isinstance(part, BUFFERS) else part.length


def _read_at_once(part: FileRange) -> bytes | None:
    """The bytes if they are in memory; None if a thread has to read them."""
    buffer = bytearray(part.length)
    try:
        read = os.preadv(part.fd, [buffer], part.position, os.RWF_NOWAIT)
    except OSError:
        return None  # They are not, or the thread will meet the same error, and tell it.
    return bytes(buffer) if read == part.length else None


def _release(parts: Iterable[Waiting]) -> None:
    for part in parts:
        if not isinstance(part, BUFFERS):
            part.release()
