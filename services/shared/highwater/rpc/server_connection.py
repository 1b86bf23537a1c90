"""One accepted connection: checks requests, and gives them to the server's methods."""

import asyncio
from typing import Final, Protocol

from highwater.http2.abuse import AbuseLimits
from highwater.http2.connection import DRAIN_PING
from highwater.http2.errors import ConnectionViolationError, ErrorCode
from highwater.http2.headers import Fields, RequestHeaders
from highwater.http2.settings import LocalSettings
from highwater.http2.stream import NOBODY, Nobody, Stream
from highwater.rpc.guard import PROOF_S, REFUSALS_MAX, Guard
from highwater.rpc.message_memory import AssemblyBudget
from highwater.rpc.metadata import is_grpc
from highwater.rpc.methods import Methods
from highwater.rpc.peer_memory import PeerMemory
from highwater.rpc.server_call import RESPONSE, CallServer, ServerCall
from highwater.rpc.status import StatusCode, encode_details
from highwater.rpc.transport import Keepalive, Transport

_NOT_GRPC: Final = b"This port speaks gRPC: POST with content-type application/grpc.\n"


class ConnectionServer(CallServer, Protocol):
    """What a connection needs of its server."""

    @property
    def settings(self) -> LocalSettings:
        """Of all connections."""
        ...

    @property
    def limits(self) -> AbuseLimits:
        """Of all connections."""
        ...

    @property
    def keepalive(self) -> Keepalive:
        """Of all connections."""
        ...

    @property
    def memory(self) -> PeerMemory:
        """Of all connections together."""
        ...

    @property
    def stopping(self) -> bool:
        """Whether new calls are refused."""
        ...

    @property
    def methods(self) -> Methods:
        """Of all connections."""
        ...

    @property
    def guard(self) -> Guard | None:
        """Of all connections; None if everybody is served."""
        ...

    def call_begins(self, call: ServerCall) -> bool:
        """Counts a call; False if there are too many."""
        ...

    def connection_opened(self, connection: "ServerConnection") -> bool:
        """Counts a connection; False if there are too many."""
        ...

    def connection_lost(self, connection: "ServerConnection") -> None:
        """The connection is gone."""
        ...


class NotGrpc(Nobody):
    """A request that is not gRPC's: answered with HTTP 415 once all of it is here."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def on_remote_end(self) -> None:
        """Answers."""
        fields: Fields = [
            (":status", "415"),
            ("content-type", "text/plain; charset=utf-8"),
            ("grpc-status", str(int(StatusCode.UNKNOWN))),
        ]
        self._stream.send_headers(fields)
        self._stream.send(b"", (_NOT_GRPC,), len(_NOT_GRPC), end_stream=True)


class ServerConnection:
    """Owned by its server, on one loop."""

    def __init__(self, server: ConnectionServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._assembly = AssemblyBudget(2 * server.message_bytes_max)
        self._draining = False
        self._refusals = 0
        self._unproved: asyncio.TimerHandle | None = None
        """Set until a call has shown the secret, if calls have to."""
        self.transport = Transport(
            self,
            client=False,
            loop=loop,
            settings=server.settings,
            limits=server.limits,
            keepalive=server.keepalive,
            memory=server.memory,
            on_failure=server.on_failure,
        )
        self.http2 = self.transport.http2

    def drain(self) -> None:
        """First step: asks the peer to open no more streams."""
        self.http2.drain("the server stops")

    def refuse_streams(self) -> None:
        """Second step: names the last stream that is carried out, and closes after the last one."""
        if not self._draining:
            self._draining = True
            self.http2.goaway(ErrorCode.NO_ERROR, "the server stops")
            self._close_if_idle()

    def _close_if_idle(self) -> None:
        if not self.http2.streams:
            self.transport.close("drained")

    # ---- MemoryHolder ----

    def memory(self) -> int:
        """See `MemoryHolder`."""
        return self.transport.memory() + self._assembly.taken

    def give_up(self, words: str) -> None:
        """See `MemoryHolder`."""
        self.transport.turn_out(words)

    # ---- TransportOwner ----

    def on_connected(self) -> None:
        """Counts against the server's limit, and asks whom the peer's certificate names."""
        if not self._server.connection_opened(self):
            self.transport.abort("too many connections")
            return
        self._server.memory.join(self)
        guard = self._server.guard
        if guard is None:
            return
        transport = self.transport
        # A unix socket has no certificates: who may connect there is a matter of its directory.
        if not transport.is_unix and not guard.knows(names := transport.peer_names):
            guard.tell_peer(peer=transport.peer, names=names)
            transport.abort("the peer's certificate has no allowed name")
        elif guard.asks_for_secret:
            self._unproved = self._loop.call_later(PROOF_S, self._not_proved)

    def on_settings(self) -> None:
        """Requests follow."""

    def on_request(self, stream: Stream, request: RequestHeaders) -> None:
        """A new call."""
        content_type = next((v for k, v in request.fields if k == "content-type"), "")
        if request.method != "POST" or not is_grpc(content_type):
            self.http2.adopt(stream, (owner := NotGrpc(stream)), owner)
            return
        server = self._server
        if server.guard is not None and self._refused(server.guard, stream, request):
            return
        if server.stopping:
            stream.reset(ErrorCode.REFUSED_STREAM)  # The client may call another server.
            return
        call = ServerCall(server, stream, request, assembly=self._assembly, loop=self._loop)
        if server.call_begins(call):
            call.begin(request, server.methods.handler_of(request.path))
        else:
            self.http2.adopt(stream, call, Nobody())
            call.finish(StatusCode.RESOURCE_EXHAUSTED, "too many calls")

    def _refused(self, guard: Guard, stream: Stream, request: RequestHeaders) -> bool:
        """Whether the call is not to begin; then it has been answered.

        Raises ConnectionViolationError for one refused call too many.
        """
        reason = guard.refusal(request.fields)
        if not reason:
            self._proved()
            return False
        guard.tell_call(peer=self.transport.peer, path=request.path, reason=reason)
        self.http2.adopt(stream, NOBODY, NOBODY)
        stream.end(
            [
                *RESPONSE,
                ("grpc-status", str(int(StatusCode.UNAUTHENTICATED))),
                ("grpc-message", encode_details(reason)),
            ]
        )
        self._refusals += 1
        if self._refusals >= REFUSALS_MAX:
            raise ConnectionViolationError(ErrorCode.ENHANCE_YOUR_CALM, reason)
        return True

    def _proved(self) -> None:
        if self._unproved is not None:
            self._unproved.cancel()
            self._unproved = None

    def _not_proved(self) -> None:
        self._unproved = None
        self.transport.abort("no call has shown the cluster's secret")

    def on_ping_ack(self, payload: bytes) -> None:
        """The peer has seen the first GOAWAY, if it was that PING."""
        if payload == DRAIN_PING:
            self.refuse_streams()

    def on_goaway(self, code: int, words: str) -> None:
        """The client opens no more streams; it closes when its calls have ended."""

    def on_stream_closed(self) -> None:
        """A call has ended."""
        if self._draining:
            self._close_if_idle()

    def on_closing(self, words: str) -> None:
        """The peer has broken the protocol."""
        self.transport.close(words)

    def on_lost(self, words: str) -> None:  # noqa: ARG002 - the calls have heard.
        """The socket is gone."""
        self._proved()
        self._server.memory.leave(self)
        self._server.connection_lost(self)
