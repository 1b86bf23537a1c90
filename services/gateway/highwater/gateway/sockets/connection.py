"""One client socket: the transport reads into a session, an outbox sends its replies."""

import asyncio
import errno
from collections.abc import Callable
from typing import Final, Protocol, cast, runtime_checkable

from highwater.gateway.core import reading
from highwater.gateway.core.reply import Part
from highwater.gateway.core.session import Session
from highwater.gateway.core.session_ports import RequestHandler
from highwater.gateway.core.shared_input import SharedInput
from highwater.gateway.routing.client import ClientInfo, ClientSession
from highwater.gateway.routing.table import TopicRoutes
from highwater.gateway.sockets.outbox import Outbox, SenderPool, duplicate
from highwater.gateway.sockets.tls_outbox import TlsOutbox
from highwater.runtime.silent_peers import close_when_silent

SHORTAGES: Final = (errno.EMFILE, errno.ENFILE)
"""The process, or the machine, has no free file descriptor."""


class Door(Protocol):
    """What lets clients in, and knows who is inside (`door`)."""

    def lets_in(self, host: str) -> bool:
        """True if a client may come in from that address."""
        ...

    def add(self, connection: "Connection") -> None:
        """It is inside."""
        ...

    def discard(self, connection: "Connection") -> None:
        """It has gone, or has never been inside."""
        ...


@runtime_checkable
class SecureTransport(Protocol):
    """A transport with TLS (`tls_stream`): it encrypts, so it makes the outbox."""

    def open_outbox(
        self, *, on_error: Callable[[str], None], on_held: Callable[[int, bool], None]
    ) -> TlsOutbox:
        """What the connection sends by."""
        ...


def _nothing(_connection: "Connection", _transport: asyncio.BaseTransport) -> None:
    """Nothing follows from it."""


class Connection(Session[ClientInfo, TopicRoutes], asyncio.BufferedProtocol):
    """A session that is its own wire. Lives from accept to close; its instance's door keeps it.

    The transport only reads. Sending happens on a duplicate descriptor (see `outbox`).
    """

    __slots__ = (
        "_door",
        "_loop",
        "_muted_until",
        "_on_made",
        "_on_shortage",
        "_outbox",
        "_pool",
        "_transport",
        "_unmuting",
        "close_reason",
        "ended",
        "frames_seen",
        "idle_sweeps",
        "sent_seen",
        "stalled_sweeps",
        "taken_seen",
        "unread_sweeps",
    )

    def __init__(
        self,
        *,
        shared: SharedInput,
        handler: RequestHandler[ClientSession],
        client: ClientInfo,
        loop: asyncio.AbstractEventLoop,
        pool: SenderPool,
        door: Door,
        on_shortage: Callable[[OSError], None],
        on_made: "Callable[[Connection, asyncio.BaseTransport], None]" = _nothing,
    ) -> None:
        """Calls `on_shortage` if no descriptor was free; the connection then closes itself.

        `on_made` is called once the socket is there, and for TLS the handshake complete.
        """
        super().__init__(shared=shared, handler=handler, wire=self, client=client)
        self._loop = loop
        self._pool = pool
        self._door = door
        self._on_shortage = on_shortage
        self._on_made = on_made
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | TlsOutbox | None = None
        self._muted_until = 0.0
        self._unmuting: asyncio.TimerHandle | None = None
        self.close_reason = ""
        self.ended = False
        """The client sends no more; close once its Produce requests are taken."""
        self.frames_seen = 0
        self.idle_sweeps = 0
        self.sent_seen = 0
        self.stalled_sweeps = 0
        self.taken_seen = 0
        self.unread_sweeps = 0

    # ---- asyncio.BufferedProtocol ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the socket."""
        # uvloop's transports do not derive from asyncio's classes.
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple) and not self.client.peer.host:  # Else the balancer named it.
            self.client.came_from(name[0], name[1])
        if not self._door.lets_in(self.client.peer.host):
            self.close("its instance does not let it in")
            return
        try:
            self._outbox = self._open_outbox(self._transport)
        except OSError as error:
            # No descriptor is free, or the client has already gone; close either way.
            if error.errno in SHORTAGES:
                self._on_shortage(error)
            self.close(str(error))
            return
        self.send_parts = self._outbox.send
        self._door.add(self)
        self._on_made(self, transport)

    def _open_outbox(self, transport: asyncio.Transport) -> Outbox | TlsOutbox:
        """Raises OSError."""
        if isinstance(transport, SecureTransport):
            return transport.open_outbox(on_error=self.close, on_held=self.output_held)
        return Outbox(
            duplicate(transport.get_extra_info("socket")),
            loop=self._loop,
            pool=self._pool,
            on_error=self.close,
            on_held=self.output_held,
        )

    def eof_received(self) -> bool:
        """The client has closed its side, so it gets no more replies.

        Its Produce requests are still taken, as in Kafka: with acks=0, a client may send and leave.
        """
        self.ended = self.waits_to_produce
        return self.ended

    def connection_lost(self, _exc: Exception | None) -> None:
        """The transport is closed."""
        self._door.discard(self)
        if self.client.login is not None:
            self.client.login.close()
        if self._unmuting is not None:
            self._unmuting.cancel()
        self.connection_closed()
        if self._outbox is not None:
            self._outbox.close()

    # ---- Wire ----

    def send(self, parts: list[Part]) -> None:
        """Queues parts behind earlier ones."""
        assert self._outbox is not None
        self._outbox.send(parts)

    def set_reading(self, reading: bool) -> None:
        """Stops or resumes reading."""
        assert self._transport is not None
        if self._transport.is_closing():
            return
        if reading:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def close_when_silent(self) -> None:
        """From now on, closes soon after the client cannot be reached any more; the kernel sees to it."""
        assert self._transport is not None
        sock = self._transport.get_extra_info("socket")
        if sock is not None:  # It is gone once the transport closes.
            close_when_silent(sock)

    def unmute_after(self, ms: int) -> None:
        """Calls `unmute` after `ms`, or at an earlier call's later time."""
        until = self._loop.time() + ms / 1000
        if until > self._muted_until:
            self._muted_until = until
            if self._unmuting is not None:
                self._unmuting.cancel()
            self._unmuting = self._loop.call_at(until, self.unmute)

    def unmute_now(self) -> None:
        """Calls `unmute` if a call is due later."""
        if self._loop.time() < self._muted_until and self._unmuting is not None:
            self._muted_until = 0.0
            self._unmuting.cancel()
            self.unmute()

    def close(self, reason: str) -> None:
        """Closes at once, as Kafka does after a request that it cannot answer."""
        if not self.closed:
            self.close_reason = reason
            self.closed = True
            assert self._transport is not None
            self._transport.abort()

    def leave(self, reason: str) -> None:
        """Closes a connection at rest, and lets its client know in the same moment.

        The loop closes the socket some turns later. A request that the client sends until then would get
        no answer, and one without retries would fail.
        """
        if isinstance(self._outbox, Outbox):  # TLS has a farewell of its own.
            self._outbox.hang_up()
        self.close(reason)

    @property
    def muted(self) -> bool:
        """True while the client is throttled."""
        return bool(self.paused & reading.MUTED)

    @property
    def bytes_sent(self) -> int:
        """Bytes that the client's socket has taken so far."""
        return 0 if self._outbox is None else self._outbox.bytes_sent

    @property
    def _sends_nothing(self) -> bool:
        return self._outbox is None or self._outbox.idle

    @property
    def at_rest(self) -> bool:
        """True if every request that has come has its reply or is a fetch, and nothing of another is here.

        A client that may not send is at rest without what waits in its socket.
        """
        return self.only_fetches and not self._has_unread()

    @property
    def only_fetches(self) -> bool:
        """True if only fetches wait for replies, which clients repeat, and nothing is half read or sent.

        What waits to start may be anything.
        """
        if self.mid_frame or self._waiting or not self._sends_nothing:
            return False
        # A reply that is ready, and has not left yet, is in `replies` and not in flight any more.
        return self.outstanding == self.fetching == len(self.replies)

    def _has_unread(self) -> bool:
        if self._outbox is None or self._transport is None or not self._transport.is_reading():
            return False
        return self._outbox.has_unread
