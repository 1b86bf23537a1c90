"""A gRPC server on the running loop: listening addresses, methods by path, an orderly drain."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from highwater.http2.abuse import AbuseLimits
from highwater.http2.settings import LocalSettings
from highwater.model.errors import BindError
from highwater.rpc.addresses import Address, TcpAddress, UnixAddress
from highwater.rpc.guard import Guard
from highwater.rpc.listener import bind, unbind
from highwater.rpc.methods import Methods
from highwater.rpc.peer_memory import PeerMemory
from highwater.rpc.reports import OnFailure
from highwater.rpc.server_call import ServerCall
from highwater.rpc.server_connection import ServerConnection
from highwater.rpc.statistics import ClosedConnections, Statistics
from highwater.rpc.status import StatusCode
from highwater.rpc.tls import TlsSource, as_source
from highwater.rpc.tls_listener import TlsListener
from highwater.rpc.transport import KEEPALIVE_DEFAULT, Keepalive
from highwater.runtime.grpc_options import MESSAGE_BYTES_MAX_DEFAULT
from highwater.runtime.tasks import TaskOwner

CONNECTIONS_MAX: Final = 4_096
"""One per gateway and node; a leak of connections ends here and not with the descriptors."""
CALLS_MAX: Final = 16_384
"""Each may wait with a stream window's bytes; `connection_window` bounds them per connection, and
`rpc.peer_memory` over all."""
GOAWAY_PATIENCE_S: Final = 1.0
"""For the ACK of the PING between the two GOAWAYs (RFC 9113, section 6.8)."""
CLOSE_TIMEOUT_S: Final = 2.5
"""For sockets to close after the drain; a transport gives its last bytes a little less."""

_SETTINGS: Final = LocalSettings()
_LIMITS: Final = AbuseLimits()


class RpcServer:
    """One listening address, and perhaps a unix socket beside it.

    Add to `methods`, `start`, later `stop`; not restartable.
    """

    def __init__(
        self,
        address: Address,
        *,
        message_bytes_max: int = MESSAGE_BYTES_MAX_DEFAULT,
        calls_max: int = CALLS_MAX,
        connections_max: int = CONNECTIONS_MAX,
        tls: TlsSource | None = None,
        guard: Guard | None = None,
        settings: LocalSettings = _SETTINGS,
        limits: AbuseLimits = _LIMITS,
        keepalive: Keepalive = KEEPALIVE_DEFAULT,
        memory: PeerMemory | None = None,
        on_failure: OnFailure | None = None,
    ) -> None:
        """Port 0 lets the system choose. Plain without `tls`, which has the certificate.

        `guard` says whom it serves; everybody without one. `memory` bounds what all peers keep.
        `on_failure` takes the bugs of handlers, by path; the loop's exception handler by default.
        """
        self.message_bytes_max = message_bytes_max
        self.settings = settings
        self.limits = limits
        self.keepalive = keepalive
        self.guard = guard
        self.memory = PeerMemory() if memory is None else memory
        self.stopping = False
        self._wanted = address
        self._bound: Address | None = None
        self._calls_max = calls_max
        self._connections_max = connections_max
        self._tls = None if tls is None else as_source(tls)
        self._loop = asyncio.get_running_loop()
        self.on_failure: OnFailure = on_failure or self._to_loop
        self._tasks = TaskOwner(self.on_failure, tasks_max=calls_max)
        self.methods = Methods(self._tasks, self.on_failure)
        """Complete before `start`."""
        self._server: asyncio.Server | None = None
        self._beside: tuple[asyncio.Server, UnixAddress] | None = None
        self._tls_listener: TlsListener | None = None
        self._connections: set[ServerConnection] = set()
        self._calls: set[ServerCall] = set()
        self._past = ClosedConnections()
        self._changed = asyncio.Event()
        """Set when a call or a connection has gone."""

    # ---- the listener ----

    @property
    def address(self) -> str:
        """host:port or unix:/path, for peers and logs; after `start`."""
        assert self._bound is not None, "the server has not been started"
        return str(self._bound)

    @property
    def port(self) -> int:
        """The port that the server listens on; after `start`, and not of a unix socket."""
        assert isinstance(self._bound, TcpAddress), "no port: not started, or a unix socket"
        return self._bound.port

    async def start(self) -> None:
        """Binds and serves. Raises PortInUseError or BindError."""
        listener = bind(self._wanted)
        self._bound = self._wanted
        if isinstance(self._wanted, TcpAddress):
            self._bound = TcpAddress(self._wanted.host, listener.getsockname()[1])
        if self._tls is not None:
            self._tls_listener = TlsListener(
                listener,
                self._tls,
                may_accept=self._may_accept,
                make_protocol=self._accept,
                on_failure=self.on_failure,
            )
        elif isinstance(self._wanted, TcpAddress):
            self._server = await self._loop.create_server(self._accept, sock=listener)
        else:
            self._server = await self._loop.create_unix_server(self._accept, sock=listener)

    async def serve_beside(self, address: UnixAddress) -> bool:
        """Serves at a unix socket, too, after `start`; always plain, and always True.

        Raises BindError. What is at its path is removed: the directory is the caller's.
        """
        assert self._bound is not None, "the server has not been started"
        assert self._beside is None, "one is enough"
        try:
            unbind(address)
        except OSError as error:
            raise BindError(str(address), error.strerror or str(error)) from None
        listener = bind(address)
        self._beside = await self._loop.create_unix_server(self._accept, sock=listener), address
        return True

    def _may_accept(self) -> bool:
        """Whether another connection may begin its handshake."""
        assert self._tls_listener is not None, "called by it"
        open_now = len(self._connections) + self._tls_listener.handshakes
        return not self.stopping and open_now < self._connections_max

    def _accept(self) -> asyncio.BufferedProtocol:
        return ServerConnection(self, self._loop).transport

    async def stop(self, *, drain_s: float) -> None:
        """Refuses new calls, lets running ones end for `drain_s` seconds, then ends them."""
        deadline_s = self._loop.time() + drain_s
        self.stopping = True
        if self._server is not None:
            self._server.close()
        if self._tls_listener is not None:
            await self._tls_listener.close()
        if self._bound is not None:
            unbind(self._wanted)
        if self._beside is not None:
            listener, address = self._beside
            listener.close()
            with contextlib.suppress(
                OSError
            ):  # Its disk may have failed; the next start removes it.
                unbind(address)
        for connection in list(self._connections):
            connection.drain()
        patience_s = min(deadline_s, self._loop.time() + GOAWAY_PATIENCE_S)
        await self._wait(lambda: not self._connections, patience_s)
        for connection in list(self._connections):
            connection.refuse_streams()
        await self._wait(lambda: not self._calls, deadline_s)
        for call in list(self._calls):
            call.fail(StatusCode.UNAVAILABLE, "the server stops")
        for connection in list(self._connections):
            connection.transport.close("the server stops")
        await self._wait(lambda: not self._connections, self._loop.time() + CLOSE_TIMEOUT_S)
        await self._tasks.close(timeout_s=CLOSE_TIMEOUT_S)

    async def _wait(self, done: Callable[[], bool], until_s: float) -> None:
        try:
            async with asyncio.timeout_at(until_s):
                while not done():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return

    # ---- ConnectionServer ----

    def call_begins(self, call: ServerCall) -> bool:
        """See `ConnectionServer`."""
        if len(self._calls) >= self._calls_max:
            return False
        self._calls.add(call)
        return True

    def call_ended(self, call: ServerCall) -> None:
        """See `CallServer`."""
        self._calls.discard(call)
        self._changed.set()

    def connection_opened(self, connection: ServerConnection) -> bool:
        """See `ConnectionServer`."""
        if self.stopping or len(self._connections) >= self._connections_max:
            return False
        self._past.opened += 1
        self._connections.add(connection)
        return True

    def connection_lost(self, connection: ServerConnection) -> None:
        """See `ConnectionServer`."""
        if connection in self._connections:
            self._connections.discard(connection)
            self._past.totals.add(connection.http2.counters)
        self._changed.set()

    # ---- the whole ----

    @property
    def calls(self) -> int:
        """How many calls run."""
        return len(self._calls)

    def statistics(self) -> Statistics:
        """This moment's numbers."""
        living = [connection.http2 for connection in self._connections]
        return Statistics(
            connections=len(living),
            unix_connections=sum(one.transport.is_unix for one in self._connections),
            streams=sum(http2.streams for http2 in living),
            held_bytes=sum(http2.held_bytes for http2 in living),
            unsent_bytes=sum(http2.output.nbytes for http2 in living),
            connections_opened=self._past.opened,
            totals=self._past.totals_with(http2.counters for http2 in living),
        )

    def _to_loop(self, name: str, error: BaseException) -> None:
        self._loop.call_exception_handler(
            {"message": f"{name} failed on {self._wanted}", "exception": error}
        )
