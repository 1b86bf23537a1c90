"""The socket of one connection: TCP, a unix socket or TLS, on the loop and without threads.

Hot path. Reads go straight into what `http2.Connection` offers. What is to be sent leaves once per
turn of the loop: at the end of a read, or soon after the first frame that gathers otherwise. Small
frames leave as one buffer, long ones as a list that nobody joins.
"""

import asyncio
import socket
import ssl
from dataclasses import dataclass
from typing import Final, Protocol, cast

from highwater.http2.abuse import AbuseLimits
from highwater.http2.connection import Connection
from highwater.http2.connection_owner import ConnectionOwner
from highwater.http2.settings import LocalSettings
from highwater.rpc.guard import names_of
from highwater.rpc.peer_memory import PeerMemory
from highwater.rpc.reports import OnFailure
from highwater.rpc.tls import ALPN
from highwater.runtime.grpc_options import KEEPALIVE_MS, KEEPALIVE_TIMEOUT_MS
from highwater.runtime.silent_peers import drop_unsent

JOIN_BYTES_MAX: Final = 32 << 10
"""Up to here one copy costs less than a list of buffers."""
WRITE_BUFFER_BYTES: Final = 1 << 20
"""The loop's own buffer: with this much in it we stop, at a quarter we go on."""
CONTROL_BYTES_MAX: Final = 4 << 20
"""A peer that makes us write so much beside payload, and does not read it, is given up: answers to
frames, and headers of calls. 1,000 calls that begin and end at once need less than a tenth. Payload
stops by itself, at `http2.output.HIGH_WATER_BYTES`."""
UNIX_SEND_BYTES: Final = 1 << 20
"""The send buffer (SO_SNDBUF) that is asked for on a unix socket, whose buffer does not grow by itself
as TCP's does; 0 leaves the kernel's 208 KiB. It gives up to net.core.wmem_max, of which half is for
bytes. The receiver's buffer has no say on a unix socket (unix(7))."""
CLOSE_TIMEOUT_S: Final = 2.0
"""For the last bytes to leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keepalive:
    """How a silent peer is found, in seconds."""

    interval_s: float = KEEPALIVE_MS / 1000
    """After so long without a byte the peer is asked, by PING."""
    timeout_s: float = KEEPALIVE_TIMEOUT_MS / 1000
    """Without a byte for so long after that it is given up."""
    settings_s: float = 10.0
    """The peer's preface and SETTINGS must have come."""


KEEPALIVE_DEFAULT: Final = Keepalive()
_PING: Final = b"keepaliv"


class TransportOwner(ConnectionOwner, Protocol):
    """The owner of a transport gets the events of its socket, too."""

    def on_connected(self) -> None:
        """The socket is there, TLS is agreed on."""
        ...

    def on_lost(self, words: str) -> None:
        """The socket is gone, and all streams have ended. Called once, also if it never opened."""
        ...


class Transport(asyncio.BufferedProtocol):
    """Lives as long as its socket, on one loop. Make one per connection."""

    def __init__(
        self,
        owner: TransportOwner,
        *,
        client: bool,
        loop: asyncio.AbstractEventLoop,
        settings: LocalSettings,
        limits: AbuseLimits,
        keepalive: Keepalive,
        memory: PeerMemory,
        on_failure: OnFailure,
    ) -> None:
        """`memory` is that of all connections; `on_failure` takes bugs that cost this one."""
        self.http2 = Connection(
            owner, client=client, wake=self._wake, settings=settings, limits=limits
        )
        self._owner = owner
        self._client = client
        self._loop = loop
        self._now_s = loop.time
        self._memory = memory
        self._keepalive = keepalive
        self._on_failure = on_failure
        self._output = self.http2.output
        self._counters = self.http2.counters
        self._get_buffer = self.http2.get_buffer
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._settings_until_s = 0.0
        self._heard = True
        self._full = False
        """The loop's buffer takes nothing more."""
        self._closing = False
        self._lost = False
        self._why = ""
        self.peer = ""
        """The peer's address, for logs; known once it is connected."""
        self.is_unix = False
        """Whether it is a unix socket; known once it is connected."""
        self._tls: ssl.SSLObject | None = None

    @property
    def connected(self) -> bool:
        """Whether there is, or was, a socket."""
        return self._transport is not None

    @property
    def peer_names(self) -> list[str]:
        """Those in the peer's certificate; empty without one."""
        return [] if self._tls is None else names_of(self._tls.getpeercert())

    # ---- asyncio.BufferedProtocol ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins with our SETTINGS."""
        # uvloop's transports are none by inheritance.
        transport = cast("asyncio.Transport", transport)
        self._transport = transport
        where = transport.get_extra_info("peername")
        self.peer = f"{where[0]}:{where[1]}" if isinstance(where, tuple) else "a unix socket"
        self._tls = tls = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() != ALPN:
            self.abort("the peer does not agree on HTTP/2 by ALPN")
            return
        plain = transport.get_extra_info("socket")
        self.is_unix = plain is not None and plain.family == socket.AF_UNIX
        if self.is_unix and UNIX_SEND_BYTES:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNIX_SEND_BYTES)
        elif plain is not None and not self.is_unix:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if (
                self._client
            ):  # What its owner has given up must not arrive when the network is back.
                drop_unsent(plain)
        transport.set_write_buffer_limits(WRITE_BUFFER_BYTES, WRITE_BUFFER_BYTES // 4)
        self._settings_until_s = self._now_s() + self._keepalive.settings_s
        self._look_later()
        self.http2.start()
        self._owner.on_connected()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the core knows better.
        """Where the next bytes are to go."""
        return self._get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Handles what was received, and sends what came of it."""
        self._heard = True
        if not self._memory.due:
            self._memory.look_soon()
        self._counters.bytes_received += nbytes
        output = self._output
        output.corked = True
        try:
            self.http2.buffer_updated(nbytes, self._now_s())
        except Exception as error:  # noqa: BLE001 - a bug costs one connection.
            self._on_failure("http2", error)
            self.abort(f"{type(error).__name__} in the transport")
            return
        if output.control_bytes > CONTROL_BYTES_MAX:
            self.abort("the peer does not read")
            return
        self.flush()

    def eof_received(self) -> bool:
        """Half-closed sockets are of no use to HTTP/2."""
        return False

    def pause_writing(self) -> None:
        """The loop's buffer is full."""
        self._full = True
        if not self._memory.due:
            self._memory.look_soon()

    def resume_writing(self) -> None:
        """It has room again."""
        self._full = False
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends all streams."""
        if self._lost:
            return
        self._lost = True
        if self._timer is not None:
            self._timer.cancel()
        words = self._why or f"the connection was lost: {exc or 'closed by the peer'}"
        self._output.corked = True
        self.http2.lost(words)
        self._output.take()
        self._owner.on_lost(words)

    # ---- sending ----

    def _wake(self) -> None:
        self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Hands the output to the loop, and moves on what waited for room there."""
        output = self._output
        if self._full or self._closing or self._lost:
            output.corked = True  # `resume_writing` looks by itself, and after the end nobody.
            return
        output.corked = False
        if output.frames:
            self._write()
        if (output.waiting or output.relieved) and not self._full:
            output.refill()

    def _write(self) -> None:
        assert self._transport is not None
        output = self._output
        nbytes = output.nbytes
        self._counters.bytes_sent += nbytes
        frames = output.take()
        if self._transport.is_closing():
            return  # The socket has failed: uvloop refuses to write, and calls `connection_lost` next.
        if nbytes <= JOIN_BYTES_MAX:
            self._transport.write(b"".join(frames))
        else:
            self._transport.writelines(frames)

    # ---- ends ----

    def close(self, words: str) -> None:
        """Closes after everything that is in the output, but does not wait for it for long."""
        if self._closing or self._lost or self._transport is None:
            return
        self._closing = True
        self._why = words
        if self._output.frames:
            self._write()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(CLOSE_TIMEOUT_S, self._transport.abort)
        self._transport.close()

    def abort(self, words: str) -> None:
        """Drops the socket; all streams end soon."""
        if self._transport is not None and not self._lost:
            self._why = self._why or words
            self._transport.abort()

    def give_up(self, words: str) -> None:
        """As `abort`, and all is over at once: nobody else tells of the end of a socket whose
        `create_connection` was cancelled after `connection_made` (uvloop).
        """
        self.abort(words)
        self._why = self._why or words
        self.connection_lost(None)

    def memory(self) -> int:
        """About what waits for the peer, here and in the loop's own buffer."""
        transport = self._transport
        if transport is None or self._lost:
            return 0
        return self.http2.memory() + transport.get_write_buffer_size()

    def turn_out(self, words: str) -> None:
        """Ends all streams and closes, at once if the peer does not read."""
        self.http2.give_up(words)
        if self._full:
            self.abort(words)

    # ---- keepalive ----

    def _look_later(self) -> None:
        wait_s = self._keepalive.interval_s
        if not self.http2.ready:
            wait_s = min(wait_s, max(self._settings_until_s - self._now_s(), 0.0))
        self._timer = self._loop.call_later(wait_s, self._look)

    def _look(self) -> None:
        """Each interval: a silent peer is asked."""
        if not self.http2.ready and self._now_s() >= self._settings_until_s:
            self.abort("the peer does not speak HTTP/2")
        elif self._heard:
            self._heard = False
            self._look_later()
        else:
            self.http2.ping(_PING)
            self._timer = self._loop.call_later(self._keepalive.timeout_s, self._answer_due)

    def _answer_due(self) -> None:
        if self._heard:
            self._look()
        else:
            self.abort("the peer does not answer (keepalive)")
