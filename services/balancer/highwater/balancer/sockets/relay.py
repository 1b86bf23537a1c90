"""One client connection: two sockets and the bytes between them.

Each side reads no more while the other cannot write, so a relay holds at most one read and
`WRITE_BUFFER_BYTES` for each direction.
"""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final

WRITE_BUFFER_BYTES: Final = 128 * 1024
KEEPALIVE_S: Final = 60
"""Silence after which the kernel asks whether the peer is still there."""
KEEPALIVE_PROBES: Final = 6
KEEPALIVE_INTERVAL_S: Final = 10


class Relay:
    """From accept until both sockets are closed; kept by the balancer's set."""

    def __init__(
        self,
        *,
        connect: Callable[["Relay"], Coroutine[Any, Any, None]],
        start: Callable[[Coroutine[Any, Any, None]], None],
        relays: "set[Relay]",
    ) -> None:
        """`connect` calls `connected`, or `close`; `start` runs it."""
        self.client = Side(self)
        self.gateway = Side(self)
        self.client.other, self.gateway.other = self.gateway, self.client
        self.moved = True
        """Whether a byte has come since the last sweep."""
        self._sweeps = 0
        self._early: list[bytes] = []
        """What the client sent before there was a gateway: one read, then it is paused."""
        self._connect = connect
        self._start = start
        self._relays = relays
        self._closed = False
        self.is_open = False
        """True once the gateway has heard the header, and may hear the client."""
        self.on_end: Callable[[], None] = lambda: None
        """Called once when the relay ends, however it does."""

    def is_closed(self) -> bool:
        """Whether it has ended; a connection made for it is of no use any more."""
        return self._closed

    def accepted(self) -> None:
        """The client is there: nothing is read from it before somebody can take it."""
        self._relays.add(self)
        self.client.transport.pause_reading()
        self._start(self._connect(self))

    def connected(self, header: bytes) -> None:
        """The gateway is there, and hears `header` first."""
        if self.client.transport.is_closing() or self.gateway.transport.is_closing():
            return  # One of them broke in this moment; `lost` comes next.
        self.is_open = True
        first = header + b"".join(self._early)
        self._early.clear()
        if first:
            self.gateway.transport.write(first)
        if self.client.ended:
            self.gateway.transport.write_eof()
        elif not self.gateway.full:
            self.client.transport.resume_reading()

    def came_early(self, data: bytes) -> None:
        """The client has sent something before anybody could take it."""
        # uvloop starts to read after `connection_made`, whatever was asked for in there.
        self._early.append(data)
        self.client.transport.pause_reading()

    def is_idle_for(self, sweeps_max: int) -> bool:
        """Called once a sweep: True after so many without a byte in either direction."""
        self._sweeps = 0 if self.moved else self._sweeps + 1
        self.moved = False
        return self._sweeps >= sweeps_max

    def close(self) -> None:
        """Closes both sides; what was read is still written, as long as the peer takes it."""
        if self._closed:
            return
        self._closed = True
        for side in (self.client, self.gateway):
            if side.transport is not None:
                side.transport.close()
        self._forget_if_over()
        self.on_end()

    def abort(self) -> None:
        """Closes both sides at once."""
        self.close()
        for side in (self.client, self.gateway):
            if side.transport is not None:
                side.transport.abort()

    def ended(self, side: "Side") -> None:
        """A peer sends no more; the other may still have something to say to it."""
        if side.other.ended:
            self.close()
        elif side is self.client and not self.is_open:
            pass  # The gateway hears of it after the rest, in `connected`.
        elif side.other.transport is not None and not side.other.transport.is_closing():
            side.other.transport.write_eof()

    def lost(self) -> None:
        """A socket is gone."""
        self.close()
        self._forget_if_over()

    def _forget_if_over(self) -> None:
        if self.client.gone and (self.gateway.gone or self.gateway.transport is None):
            self._relays.discard(self)


class Side(asyncio.Protocol):
    """One of the two sockets."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self.other: Side
        self.transport: Any = None
        self.ended = False
        self.gone = False
        self.full = False
        """True while more is to be written than the peer takes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the socket; the client's is first."""
        self.transport = transport
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        _keep_alive(transport.get_extra_info("socket"))
        if self is self._relay.client:
            self._relay.accepted()

    def data_received(self, data: bytes) -> None:
        """Passes bytes on."""
        self._relay.moved = True
        relay = self._relay
        if self is relay.client and not relay.is_open:
            relay.came_early(data)
        elif not self.other.transport.is_closing():
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        """The peer does not keep up: the other side waits."""
        self.full = True
        if self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """It does again."""
        self.full = False
        if self.other.transport is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def eof_received(self) -> bool:
        """The peer sends no more."""
        self.ended = True
        self._relay.ended(self)
        return True

    def connection_lost(self, _exc: Exception | None) -> None:
        """The socket is gone."""
        self.gone = True
        self._relay.lost()


def _keep_alive(sock: Any) -> None:
    """Clients that vanish without a word are found out within two minutes."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
