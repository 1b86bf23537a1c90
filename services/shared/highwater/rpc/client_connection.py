"""One connection of a channel: from the attempt to connect until the socket is gone."""

import asyncio
import ssl
from collections.abc import Callable

from highwater.http2.abuse import AbuseLimits
from highwater.http2.errors import ErrorCode
from highwater.http2.headers import RequestHeaders
from highwater.http2.settings import LocalSettings
from highwater.http2.stream import Stream
from highwater.rpc.addresses import Address, TcpAddress
from highwater.rpc.client_call import ClientCall
from highwater.rpc.message_memory import AssemblyBudget
from highwater.rpc.peer_memory import PeerMemory
from highwater.rpc.reports import OnFailure
from highwater.rpc.transport import Keepalive, Transport


class ClientConnection:
    """Owned by its channel, on one loop. `room` is called when a call may begin again."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        settings: LocalSettings,
        limits: AbuseLimits,
        keepalive: Keepalive,
        assembly_bytes_max: int,
        memory: PeerMemory,
        on_failure: OnFailure,
        room: Callable[[], None],
        drained: Callable[["ClientConnection"], None],
        lost: Callable[["ClientConnection", str], None],
    ) -> None:
        """`drained`: the peer takes no more calls; `lost`: the connection is gone."""
        self._loop = loop
        self._room = room
        self._drained = drained
        self._lost = lost
        self._assembly = AssemblyBudget(assembly_bytes_max)
        self._memory = memory
        self._ready: asyncio.Future[None] = loop.create_future()
        self._draining = False
        self.transport = Transport(
            self,
            client=True,
            loop=loop,
            settings=settings,
            limits=limits,
            keepalive=keepalive,
            memory=memory,
            on_failure=on_failure,
        )
        self.http2 = self.transport.http2

    async def connect(self, address: Address, tls: ssl.SSLContext | None) -> None:
        """Connects, and waits for the peer's SETTINGS. Raises OSError."""
        if isinstance(address, TcpAddress):
            await self._loop.create_connection(
                lambda: self.transport,
                address.host,
                address.port,
                ssl=tls,
                server_hostname=address.host if tls is not None else None,
            )
        else:
            await self._loop.create_unix_connection(
                lambda: self.transport,
                address.path,
                ssl=tls,
                server_hostname="localhost" if tls is not None else None,
            )
        await self._ready

    @property
    def takes_calls(self) -> bool:
        """True if a call may begin now."""
        return self.http2.has_room

    @property
    def draining(self) -> bool:
        """True if no call will ever begin here again."""
        return self._draining

    def begin(self, call: ClientCall) -> None:
        """Begins a call; only while `takes_calls`."""
        call.begin(self.http2, self._assembly)
        if self.http2.exhausted and not self._draining:
            self._draining = True
            self._drained(self)

    def close(self, words: str) -> None:
        """Says goodbye and closes the socket; calls that are not over are lost.

        If there is no socket yet, the owner cancels `connect`.
        """
        self._draining = True
        if self.transport.connected:
            self.http2.goaway(ErrorCode.NO_ERROR, words)
        self.transport.close(words)

    # ---- MemoryHolder ----

    def memory(self) -> int:
        """See `MemoryHolder`."""
        return self.transport.memory() + self._assembly.taken

    def give_up(self, words: str) -> None:
        """See `MemoryHolder`."""
        self.transport.turn_out(words)

    # ---- TransportOwner ----

    def on_connected(self) -> None:
        """The peer's SETTINGS are still to come."""
        self._memory.join(self)

    def on_settings(self) -> None:
        """They are here, or allow more streams than before."""
        if self._ready.done():
            self._room()
        else:
            self._ready.set_result(None)

    def on_request(self, stream: Stream, request: RequestHeaders) -> None:
        """Never called: servers open no streams."""

    def on_ping_ack(self, payload: bytes) -> None:
        """The transport has noticed that the peer lives."""

    def on_goaway(self, code: int, words: str) -> None:  # noqa: ARG002 - the calls have heard.
        """The peer takes no more calls; those that it has are carried out."""
        if not self._draining:
            self._draining = True
            self._drained(self)
        self._close_if_idle()

    def on_stream_closed(self) -> None:
        """A call has ended."""
        if self._draining:
            self._close_if_idle()
        else:
            self._room()

    def _close_if_idle(self) -> None:
        if not self.http2.streams:
            self.transport.close("drained")

    def on_closing(self, words: str) -> None:
        """The peer has broken the protocol."""
        self._draining = True
        self.transport.close(words)

    def on_lost(self, words: str) -> None:
        """The socket is gone."""
        self._draining = True
        self._memory.leave(self)
        if not self._ready.done():
            self._ready.set_exception(ConnectionError(words))
            # Nobody may be waiting any more, if the attempt was given up.
            self._ready.exception()
        self._lost(self, words)
