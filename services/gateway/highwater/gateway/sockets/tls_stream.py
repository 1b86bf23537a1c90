"""TLS between a client's socket and its connection: the socket's protocol, and the connection's transport.

    state       what happens                                     next
    handshake   bytes have come                                  handshake: a thread takes the next step
                it is complete                                   open: the connection begins
                it fails, takes too long, or the client goes     closed
    open        bytes have come                                  open: they are decrypted into the connection
                close_notify or the end of the socket, and all   half closed if the connection still takes
                before it is decrypted                           requests, else closed
    half closed the connection ends                              closed
    any         `abort`, or the socket is lost                   closed

The loop and threads take turns with the engine (`tls_loan`). What comes while a thread has it is kept, up
to `KEPT_BYTES`; then nothing is read. When it comes back, first what was kept is decrypted, then
replies go on. Renegotiation of TLS 1.2 is refused, as in Kafka, so no write ever waits for a read.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from functools import partial
from ssl import SSLContext
from typing import Any, Final, cast

from highwater.gateway.routing.client import ClientInfo
from highwater.gateway.sockets.connection import Connection
from highwater.gateway.sockets.outbox import Outbox, SenderPool, duplicate
from highwater.gateway.sockets.tls_engine import TlsEngine
from highwater.gateway.sockets.tls_loan import TlsLoan
from highwater.gateway.sockets.tls_outbox import THREAD_BYTES_MIN, TlsOutbox
from highwater.gateway.sockets.tls_shared import SharedTls

HANDSHAKE_S: Final = 10.0
"""A handshake that takes longer ends its connection."""
KEPT_BYTES: Final = 64 * 1024


class TlsStream(asyncio.BufferedProtocol):
    """See the module. Lives from accept to close."""

    def __init__(
        self,
        connection: Connection,
        context: SSLContext,
        *,
        shared: SharedTls,
        loop: asyncio.AbstractEventLoop,
        pool: SenderPool,
        lets_in: Callable[[str], bool],
        on_shortage: Callable[[OSError], None],
        begun: Sequence["set[TlsStream]"],
        on_failed: Callable[[str, str], None],
    ) -> None:
        """`lets_in` is asked before the handshake, with the client's address. Each of `begun` has the streams
        whose handshake is not complete; `on_failed` gets the client's address and what was wrong with one.
        """
        self._connection = connection
        self._shared = shared
        self._loop = loop
        self._pool = pool
        self._lets_in = lets_in
        self._on_shortage = on_shortage
        self._begun = begun
        self._on_failed = on_failed
        self._engine = TlsEngine(context)
        self._loan = TlsLoan(self._advance)
        self._raw: asyncio.Transport
        self._lower: Outbox | None = None
        self._outbox: TlsOutbox | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._kept = b""
        """What has come while a thread has the engine."""
        self._failure: str | None = None
        self._host = ""
        """Why there will be no handshake. A client that sends nothing wanted none."""
        self._settled = False
        self._open = False
        self._wanted = True
        """The connection reads."""
        self._raw_reading = True
        self._eof = False
        """The socket has ended."""
        self._over = False
        """The connection knows that its client sends no more."""
        self._closing = False

    @property
    def client(self) -> ClientInfo:
        """The client of the connection."""
        return self._connection.client

    # ---- asyncio.BufferedProtocol, of the socket ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the socket."""
        # uvloop's transports do not derive from asyncio's classes.
        raw = self._raw = cast("asyncio.Transport", transport)
        name = raw.get_extra_info("peername")
        if isinstance(name, tuple) and not self.client.peer.host:  # Else it is known already.
            self.client.came_from(name[0], name[1])
        self._host = self.client.peer.host
        if not self._lets_in(self._host):
            self._give_up(None)
            return
        for begun in self._begun:
            begun.add(self)
        try:
            sock = duplicate(cast("socket.socket", raw.get_extra_info("socket")))
        except OSError as error:
            self._on_shortage(error)
            self._give_up(None)
            return
        self._lower = Outbox(
            sock,
            loop=self._loop,
            pool=self._pool,
            on_error=self._socket_failed,
            on_held=self._socket_held,
        )
        self._timer = self._loop.call_later(HANDSHAKE_S, self._give_up, "it takes too long")

    def get_buffer(self, _sizehint: int) -> memoryview:
        """The buffer for the next read."""
        return self._shared.buffer if self._loan.free else self._shared.buffer[:KEPT_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        """Takes what was read."""
        if self._over or self._closing:
            return
        if self._loan.free:
            self._engine.receive(self._shared.buffer[:nbytes])
            self._advance()
        else:
            self._kept = bytes(self._shared.buffer[:nbytes])
            self._choose_reading()

    def eof_received(self) -> bool:
        """The client's side of the socket is closed; true as long as the other one is needed."""
        if not self._open:
            return False
        self._eof = True
        if self._loan.free:
            self._advance()
        return not self._closing

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        self._closing = True
        self._settle(self._failure)
        if self._open:
            self._connection.connection_lost(exc)
        if self._lower is not None:
            self._lower.close()

    # ---- the transport of the connection ----

    def open_outbox(
        self, *, on_error: Callable[[str], None], on_held: Callable[[int, bool], None]
    ) -> TlsOutbox:
        """What the connection sends by; made once."""
        assert self._lower is not None
        self._outbox = TlsOutbox(
            self._lower,
            engine=self._engine,
            loan=self._loan,
            threads=self._shared.threads,
            memory=self._shared.memory,
            on_error=on_error,
            on_held=on_held,
        )
        return self._outbox

    def get_extra_info(self, name: str) -> Any:
        """As asyncio's transports: of the socket, and `peercert`."""
        return (
            self._engine.peer_certificate if name == "peercert" else self._raw.get_extra_info(name)
        )

    def is_closing(self) -> bool:
        """True if the connection ends."""
        return self._closing

    def is_reading(self) -> bool:
        """True if the connection reads."""
        return self._wanted and not self._closing

    def pause_reading(self) -> None:
        """Gives the connection nothing more."""
        self._wanted = False
        self._choose_reading()

    def resume_reading(self) -> None:
        """Goes on, also with what has come before."""
        self._wanted = True
        self._choose_reading()
        # Later: the caller is in the middle of something.
        self._loop.call_soon(self._advance)

    def abort(self) -> None:
        """Closes at once. Says so if nothing is under way: else it would come out of order."""
        if self._closing:
            return
        self._closing = True
        self._failure = None
        lower = self._lower
        if self._open and lower is not None and self._loan.free and lower.is_free:
            lower.send([self._engine.farewell()])
        self._raw.abort()

    # ---- input ----

    def _advance(self) -> None:
        """Goes on with all that has come: the engine is free, or the connection reads again."""
        if not self._has_engine():
            return
        if self._kept:
            kept, self._kept = self._kept, b""
            self._engine.receive(kept)
            self._choose_reading()
        if self._open:
            self._decrypt()
        elif self._engine.unread:
            self._failure = "the client has gone"
            self._loan.lend(self._shared.handshakes, self._engine.handshake, self._shook_hands)
        if self._outbox is not None and self._has_engine():
            self._outbox.pump()

    def _has_engine(self) -> bool:
        """True if the loop may use the engine, and still needs it."""
        return self._loan.free and not self._closing

    def _shook_hands(self, result: bool | Exception) -> None:
        """Takes a step of the handshake, done by a thread."""
        if self._closing:
            return
        self._flush()  # The next messages, or an alert.
        if isinstance(result, Exception):
            self._give_up(str(result))
        elif result and not self.is_closing():
            self._open = True
            self._settle(None)
            self._connection.connection_made(cast("asyncio.BaseTransport", self))

    def _decrypt(self) -> None:
        """Fills the connection's buffers, until it has enough, nothing is left or a thread does it."""
        connection, engine = self._connection, self._engine
        while self._wanted and not self._over and self._has_engine():
            view = connection.get_buffer(-1)
            if (
                connection.input.in_large_frame  # So nobody else has the buffer.
                and len(view) >= THREAD_BYTES_MIN
                and engine.unread >= THREAD_BYTES_MIN
            ):
                self._loan.lend(
                    self._shared.threads, partial(engine.read_into, view), self._decrypted
                )
                return
            try:
                filled = engine.read_into(view)
            except OSError as error:
                self._fail(str(error))
                return
            if filled:
                connection.buffer_updated(filled)
            if filled < len(view):
                if (self._eof or engine.ended) and not self.is_closing():
                    self._input_over()
                break
        if self._has_engine():
            self._flush()

    def _decrypted(self, result: int | Exception) -> None:
        """Takes what a thread has decrypted into the connection's buffer."""
        if self._closing:
            return
        if isinstance(result, Exception):
            self._fail(str(result))
        elif result:
            self._connection.buffer_updated(result)

    def _input_over(self) -> None:
        """The client sends no more. Requests that it has sent are still taken (acks=0)."""
        self._over = True
        if not self._connection.eof_received():
            self.abort()

    def _flush(self) -> None:
        """Sends what TLS has to say by itself."""
        assert self._lower is not None
        data = self._engine.take()
        if data:
            self._lower.send([data])

    def _choose_reading(self) -> None:
        """Reads the socket unless somebody has enough."""
        reading = self._wanted and not self._kept
        if reading == self._raw_reading or self._eof or self._raw.is_closing():
            return
        self._raw_reading = reading
        if reading:
            self._raw.resume_reading()
        else:
            self._raw.pause_reading()

    # ---- ends ----

    def _socket_held(self, nbytes: int, _behind: bool) -> None:
        if self._outbox is not None:
            self._outbox.lower_held(nbytes)

    def _socket_failed(self, reason: str) -> None:
        if self._open:
            self._connection.close(reason)
        else:
            self._give_up(reason)

    def _fail(self, reason: str) -> None:
        """The client has broken the protocol of TLS: tells it by an alert, if there is one."""
        self._flush()
        self._connection.close(reason)

    def _give_up(self, reason: str | None) -> None:
        """There will be no handshake; `reason` is None if somebody has told of it."""
        if not self._settled:
            self._failure = reason
            self._closing = True
            self._raw.abort()

    def _settle(self, failure: str | None) -> None:
        if self._settled:
            return
        self._settled = True
        if self._timer is not None:
            self._timer.cancel()
        for begun in self._begun:
            begun.discard(self)
        if failure is not None:
            self._on_failed(self._host, failure)
