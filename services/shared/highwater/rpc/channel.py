"""A client's channel to one peer: connects lazily, and again when there is a call to make."""

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Final, TypeVar

from highwater.http2.abuse import AbuseLimits
from highwater.http2.headers import Fields
from highwater.http2.settings import LocalSettings
from highwater.rpc.addresses import Address, UnixAddress, parse_address
from highwater.rpc.backoff import (
    RETRY_ATTEMPTS_MAX,
    ConnectBackoff,
    RetryThrottle,
    retry_pause_s,
)
from highwater.rpc.client_call import ClientCall
from highwater.rpc.client_connection import ClientConnection
from highwater.rpc.errors import RpcError
from highwater.rpc.metadata import Metadata, encode_proof, no_metadata
from highwater.rpc.peer_memory import PeerMemory
from highwater.rpc.ports import Message, nothing
from highwater.rpc.reports import OnFailure
from highwater.rpc.statistics import ClosedConnections, Statistics
from highwater.rpc.status import Status, StatusCode
from highwater.rpc.tls import TlsSource, as_source
from highwater.rpc.transport import KEEPALIVE_DEFAULT, Keepalive
from highwater.rpc.unary_call import UnaryCall
from highwater.runtime.grpc_channel import RECONNECT_BACKOFF_MS
from highwater.runtime.grpc_options import MESSAGE_BYTES_MAX_DEFAULT
from highwater.runtime.tasks import TaskOwner

CONNECT_TIMEOUT_S: Final = RECONNECT_BACKOFF_MS[1] / 1000
CALLS_WAITING_MAX: Final = 1_000
"""For a connection, or for room on it."""
CLOSE_TIMEOUT_S: Final = 2.0

_SETTINGS: Final = LocalSettings()
_LIMITS: Final = AbuseLimits()

Request = TypeVar("Request")
Response = TypeVar("Response")


class Channel:
    """Satisfies `rpc.ports.RpcChannel`. Lives from its making to `close`, on the running loop."""

    def __init__(
        self,
        address: str,
        *,
        message_bytes_max: int = MESSAGE_BYTES_MAX_DEFAULT,
        tls: TlsSource | None = None,
        proof: Callable[[], Metadata] = no_metadata,
        settings: LocalSettings = _SETTINGS,
        limits: AbuseLimits = _LIMITS,
        keepalive: Keepalive = KEEPALIVE_DEFAULT,
        on_failure: OnFailure | None = None,
        nearby: UnixAddress | None = None,
        memory: PeerMemory | None = None,
        random_number: Callable[[], float] = random.random,
    ) -> None:
        """`address`: host:port or unix:/path. Plain without `tls`, which must trust the peer.

        `proof` gives what every call carries, to show who calls.
        `on_failure` takes the bugs of callbacks; the loop's exception handler by default. `nearby`
        is a socket of the same peer, which each attempt tries first: always plain, so nobody else may
        be able to listen there. `memory` is that of all channels which share one. Raises ValueError.
        """
        self._address = parse_address(address)
        self._authority = "localhost" if address.startswith("unix:") else address
        self.message_bytes_max = message_bytes_max
        self._nearby = nearby
        self._memory = PeerMemory() if memory is None else memory
        self._tls = None if tls is None else as_source(tls)
        self._proof = proof
        self._settings = settings
        self._limits = limits
        self._keepalive = keepalive
        self._loop = asyncio.get_running_loop()
        self.on_failure: OnFailure = on_failure or self._to_loop
        self._random = random_number
        self._tasks = TaskOwner(self.on_failure)
        self._backoff = ConnectBackoff(random_number)
        self._throttle = RetryThrottle()
        self._connection: ClientConnection | None = None
        """The one that new calls go to."""
        self._connections: set[ClientConnection] = set()
        """All whose sockets are open."""
        self._connecting = False
        self._again: asyncio.TimerHandle | None = None
        """Set during the pause after a failed attempt."""
        self._failure = ""
        """Of the last attempt to connect."""
        self._waiting: dict[ClientCall, None] = {}
        self._calls: set[ClientCall] = set()
        self._past = ClosedConnections()
        self._closed = False

    # ---- calls ----

    def stream(
        self,
        path: str,
        *,
        on_message: Callable[[Message], None],
        on_end: Callable[[Status], None],
        on_open: Callable[[], None] = nothing,
        on_writable: Callable[[], None] = nothing,
        metadata: Metadata = (),
        timeout_s: float | None = None,
        wait_for_ready: bool = False,
    ) -> ClientCall:
        """See `rpc.ports.StreamChannel`. Raises ValueError for metadata that cannot travel."""
        call = ClientCall(
            self,
            path,
            loop=self._loop,
            on_message=on_message,
            on_end=on_end,
            on_open=on_open,
            on_writable=on_writable,
            metadata=metadata,
            timeout_s=timeout_s,
            wait_for_ready=wait_for_ready,
        )
        self._calls.add(call)
        # Later, so that its maker has it before its first callback.
        self._loop.call_soon(self._place, call)
        return call

    async def unary(
        self,
        path: str,
        request: Request,
        *,
        serialize: Callable[[Request], bytes],
        deserialize: Callable[[bytearray], Response],
        timeout_s: float,
        metadata: Metadata = (),
        wait_for_ready: bool = False,
        idempotent: bool = False,
    ) -> Response:
        """One request and its response. Raises RpcError.

        `idempotent`: a read, which is repeated when the peer is unavailable. Other calls are
        repeated only if the peer certainly has not handled them.
        """
        deadline_s = self._loop.time() + timeout_s
        message = serialize(request)
        for attempt in range(1, RETRY_ATTEMPTS_MAX + 1):
            call = UnaryCall(self._loop)
            call.begin(
                self.stream(
                    path,
                    on_message=call.on_message,
                    on_end=call.on_end,
                    metadata=metadata,
                    timeout_s=deadline_s - self._loop.time(),
                    wait_for_ready=wait_for_ready,
                ),
                message,
            )
            try:
                response = await call.response()
            except RpcError as error:
                if error.code is not StatusCode.UNAVAILABLE:
                    raise
                may = self._throttle.failed() and (idempotent or call.unprocessed)
                if not may or attempt == RETRY_ATTEMPTS_MAX or self._closed:
                    raise
            else:
                self._throttle.succeeded()
                return deserialize(response)
            await asyncio.sleep(retry_pause_s(attempt, self._random))
        raise AssertionError("the last attempt returns or raises")

    def _place(self, call: ClientCall) -> None:
        """Begins a call, or lets it wait for a connection."""
        if call.ended:
            return
        if self._closed:
            call.fail(StatusCode.CANCELLED, "the channel is closed")
            return
        connection = self._connection
        if connection is not None and connection.takes_calls and not self._waiting:
            connection.begin(call)
            return
        if len(self._waiting) >= CALLS_WAITING_MAX:
            call.fail(StatusCode.RESOURCE_EXHAUSTED, "too many calls wait for the peer")
        elif self._again is not None and not call.wait_for_ready:
            call.fail(StatusCode.UNAVAILABLE, self._failure)
        else:
            self._waiting[call] = None
            self._connect_if_needed()

    def _begin_waiting(self) -> None:
        connection = self._connection
        while self._waiting and connection is not None and connection.takes_calls:
            call = next(iter(self._waiting))
            del self._waiting[call]
            connection.begin(call)

    # ---- CallHost ----

    def request_fields(self, path: str) -> Fields:
        """See `CallHost`."""
        return [
            (":method", "POST"),
            (":scheme", "http" if self._tls is None else "https"),
            (":path", path),
            (":authority", self._authority),
            *encode_proof(self._proof()),
        ]

    def call_ended(self, call: ClientCall) -> None:
        """See `CallHost`."""
        self._calls.discard(call)
        self._waiting.pop(call, None)

    # ---- connections ----

    @property
    def connected(self) -> bool:
        """True while calls go out at once."""
        return self._connection is not None

    def _connect_if_needed(self) -> None:
        if (
            self._connection is None
            and not self._connecting
            and self._again is None
            and not self._closed
        ):
            self._connecting = True
            self._tasks.start(self._connect(), name=f"connect to {self._address}")

    async def _connect(self) -> None:
        try:
            connection = await self._reach()
        except OSError as error:  # TimeoutError is one, and so are those of TLS.
            self._connecting = False
            self._connect_failed(f"cannot connect to {self._address}: {str(error) or 'no answer'}")
            return
        self._connecting = False
        self._past.opened += 1
        if self._closed or connection.draining:
            connection.close("the channel is closed")
            self._connect_if_waiting()
            return
        self._backoff.succeeded()
        self._connection = connection
        self._begin_waiting()

    async def _reach(self) -> ClientConnection:
        """A connection to the peer, by the nearest way that works. Raises OSError."""
        until_s = self._loop.time() + CONNECT_TIMEOUT_S
        if self._nearby is not None:
            # It may be gone, or not for this user; a peer that lives still has its port.
            with contextlib.suppress(OSError):
                return await self._connect_to(self._nearby, until_s)
            if self._loop.time() >= until_s:
                raise TimeoutError("no answer")
        return await self._connect_to(self._address, until_s)

    async def _connect_to(self, address: Address, until_s: float) -> ClientConnection:
        """Raises OSError."""
        connection = ClientConnection(
            loop=self._loop,
            settings=self._settings,
            limits=self._limits,
            keepalive=self._keepalive,
            assembly_bytes_max=2 * self.message_bytes_max,
            memory=self._memory,
            on_failure=self.on_failure,
            room=self._begin_waiting,
            drained=self._connection_drained,
            lost=self._connection_lost,
        )
        self._connections.add(connection)
        try:
            async with asyncio.timeout_at(until_s):
                make = None if address is self._nearby else self._tls
                await connection.connect(address, None if make is None else make())
        except (OSError, asyncio.CancelledError):  # Also if the channel is closed meanwhile.
            connection.transport.give_up("the attempt to connect has failed")
            self._connections.discard(connection)
            raise
        return connection

    def _connect_failed(self, failure: str) -> None:
        self._failure = failure
        self._again = self._loop.call_later(self._backoff.failed(), self._pause_over)
        for call in [call for call in self._waiting if not call.wait_for_ready]:
            call.fail(StatusCode.UNAVAILABLE, failure)

    def _pause_over(self) -> None:
        self._again = None
        self._connect_if_waiting()

    def _connect_if_waiting(self) -> None:
        if self._waiting:
            self._connect_if_needed()

    def _connection_drained(self, connection: ClientConnection) -> None:
        if self._connection is connection:
            self._connection = None
            self._connect_if_waiting()

    def _connection_lost(self, connection: ClientConnection, _words: str) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            self._past.totals.add(connection.http2.counters)
        self._connection_drained(connection)

    # ---- the whole ----

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

    async def close(self) -> None:
        """Cancels all calls and closes the connections."""
        self._closed = True
        if self._again is not None:
            self._again.cancel()
            self._again = None
        for call in list(self._calls):
            call.fail(StatusCode.CANCELLED, "the channel was closed")
        for connection in list(self._connections):
            connection.close("the channel is closed")
        await self._tasks.close(timeout_s=CLOSE_TIMEOUT_S)

    def _to_loop(self, name: str, error: BaseException) -> None:
        self._loop.call_exception_handler(
            {"message": f"{name} failed on the channel to {self._address}", "exception": error}
        )
