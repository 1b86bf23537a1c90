"""One client connection: two sockets and the bytes between them.

A side stops reading while the other cannot write, so a relay holds at most one read and
`WRITE_BUFFER_BYTES` for each direction.
"""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final

WRITE_BUFFER_BYTES: Final = 128 * 1024
KEEPALIVE_S: Final = 60
"""Silence after which the kernel probes the peer."""
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
        """Bytes that the client sent before there was a gateway: one read, then it is paused."""
        self._connect = connect
        self._start = start
        self._relays = relays
        self._closed = False
        self.is_open = False
        """True once the header has been sent to the gateway; the client's bytes follow it."""
        self.on_end: Callable[[], None] = lambda: None
        """Called once when the relay ends for any reason."""

    def is_closed(self) -> bool:
        """True if the relay has ended; a new gateway connection must then be closed."""
        return self._closed

    def accepted(self) -> None:
        """Handles a new client; reading from it waits for the gateway."""
        self._relays.add(self)
        self.client.transport.pause_reading()
        self._start(self._connect(self))

    def connected(self, header: bytes) -> None:
        """Handles the new gateway connection; `header` is sent first."""
        if self.client.transport.is_closing() or self.gateway.transport.is_closing():
            return  # A connection has just broken; `lost` will be called.
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
        """Keeps bytes that the client sent before there was a gateway."""
        # uvloop starts to read after `connection_made`, even if reading was paused there.
        self._early.append(data)
        self.client.transport.pause_reading()

    def is_idle_for(self, sweeps_max: int) -> bool:
        """Called at each sweep: True after so many sweeps without a byte in either direction."""
        self._sweeps = 0 if self.moved else self._sweeps + 1
        self.moved = False
        return self._sweeps >= sweeps_max

    def close(self) -> None:
        """Closes both sides after writing what was read."""
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
        """Handles the end of one peer's bytes; the other may still send."""
        if side.other.ended:
            self.close()
        elif side is self.client and not self.is_open:
            pass  # `connected` passes it on after the early bytes.
        elif side.other.transport is not None and not side.other.transport.is_closing():
            side.other.transport.write_eof()

    def lost(self) -> None:
        """Handles the loss of a socket."""
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
        """True while the peer reads more slowly than the other side sends."""

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
        """Pauses the other side's reading: this peer does not keep up."""
        self.full = True
        if self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Resumes the other side's reading."""
        self.full = False
        if self.other.transport is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def eof_received(self) -> bool:
        """Handles the end of the peer's bytes."""
        self.ended = True
        self._relay.ended(self)
        return True

    def connection_lost(self, _exc: Exception | None) -> None:
        """Handles the loss of this socket."""
        self.gone = True
        self._relay.lost()


def _keep_alive(sock: Any) -> None:
    """Makes the kernel detect clients that vanished, within two minutes."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
