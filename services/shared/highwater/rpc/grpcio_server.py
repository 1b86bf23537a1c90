"""A server of grpc.aio behind the ports of `rpc`: stream handlers with callbacks, by path."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import grpc
import grpc.aio

from highwater.http2.ports import Buffer
from highwater.rpc.addresses import UnixAddress
from highwater.rpc.grpcio_guard import GuardInterceptor, server_credentials
from highwater.rpc.grpcio_messages import Outgoing, grpcio_code_of, metadata_of
from highwater.rpc.guard import IDLE_MS_MAX, Guard
from highwater.rpc.metadata import Metadata
from highwater.rpc.methods import Methods
from highwater.rpc.ports import ServerCallbacks, StreamHandler
from highwater.rpc.reports import OnFailure, guarded
from highwater.rpc.status import Status, StatusCode
from highwater.rpc.tls import ServerTls
from highwater.runtime.grpc_options import MESSAGE_BYTES_MAX_DEFAULT
from highwater.runtime.grpc_server import GrpcServer
from highwater.runtime.tasks import TaskOwner

CLOSE_TIMEOUT_S: Final = 1.0


class GrpcioServer(grpc.GenericRpcHandler):
    """Has the methods of `rpc.server.RpcServer` that its users need. Made on the running loop."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        message_bytes_max: int = MESSAGE_BYTES_MAX_DEFAULT,
        tls: ServerTls | None = None,
        guard: Guard | None = None,
        on_failure: OnFailure,
    ) -> None:
        """Port 0 lets the system choose. `guard` says whom it serves; `on_failure` takes the bugs of handlers, by path."""
        self._server = GrpcServer(
            host,
            port,
            message_bytes_max=message_bytes_max,
            interceptors=() if guard is None else (GuardInterceptor(guard),),
            idle_ms_max=None if guard is None else IDLE_MS_MAX,
            credentials=server_credentials(tls),
        )
        self._server.register(lambda server: server.add_generic_rpc_handlers((self,)))
        self._on_failure = on_failure
        self._tasks = TaskOwner(on_failure)
        self.methods = Methods(self._tasks, on_failure)
        """Complete before `start`."""

    @property
    def address(self) -> str:
        """host:port, for peers and logs; after `start`."""
        return self._server.address

    @property
    def port(self) -> int:
        """The port that the server listens on; after `start`."""
        return self._server.port

    async def start(self) -> None:
        """Binds and serves. Raises PortInUseError or BindError."""
        await self._server.start()

    async def serve_beside(self, address: UnixAddress) -> bool:  # noqa: ARG002 - see below.
        """False: grpcio has all addresses before its start, and makes sockets with any rights."""
        return False

    async def stop(self, *, drain_s: float) -> None:
        """See `RpcServer`."""
        await self._server.stop(drain_s=drain_s)
        await self._tasks.close(timeout_s=CLOSE_TIMEOUT_S)

    def statistics(self) -> None:
        """grpcio tells nothing of its connections."""

    # ---- grpc.GenericRpcHandler ----

    def service(self, handler_call_details: Any) -> Any:
        """The method of a path, or None. A unary call is a stream of one message, too."""
        path: str = handler_call_details.method
        handler = self.methods.handler_of(path)
        if handler is None:
            return None
        metadata = metadata_of(handler_call_details.invocation_metadata)

        async def serve(_requests: object, context: Any) -> None:
            await GrpcioServerCall(path, metadata, context, self._on_failure).run(handler)

        return grpc.stream_stream_rpc_method_handler(serve)


class GrpcioServerCall:
    """Satisfies `rpc.ports.ServerStreamCall`."""

    def __init__(self, path: str, metadata: Metadata, context: Any, on_failure: OnFailure) -> None:
        """`context` is grpc.aio's, whose stubs do not declare what `read` gives."""
        self.path = path
        self.metadata = metadata
        self._context = context
        self._on_failure = on_failure
        self._outgoing = Outgoing(self._writable)
        self._callbacks: ServerCallbacks | None = None
        self._reading = asyncio.Event()
        self._reading.set()
        self._status: Status | None = None
        """Set by `finish`: nothing more is read."""
        self._over = asyncio.Event()
        """Everything is written, or is not to be."""

    # ---- ServerStreamCall ----

    @property
    def unsent_bytes(self) -> int:
        """See `StreamCall`."""
        return self._outgoing.nbytes

    def send(self, parts: Buffer | Sequence[Buffer]) -> None:
        """See `StreamCall`."""
        self._outgoing.send(parts)

    def can_send(self) -> bool:
        """See `StreamCall`."""
        return self._outgoing.can_send()

    def pause_reading(self) -> None:
        """See `StreamCall`."""
        self._reading.clear()

    def resume_reading(self) -> None:
        """See `StreamCall`; what has come meanwhile follows in the next turn of the loop."""
        self._reading.set()

    def send_initial_metadata(self, metadata: Metadata = ()) -> None:
        """See `ServerStreamCall`; here they leave with the first message, and metadata may not."""
        assert not metadata, "nobody needs initial metadata over grpcio"

    def finish(
        self, code: StatusCode = StatusCode.OK, details: str = "", metadata: Metadata = ()
    ) -> None:
        """See `ServerStreamCall`."""
        if self._status is None:
            self._status = Status(code, details, metadata)
            self._outgoing.end()

    def cancel(self) -> None:
        """See `StreamCall`."""
        self._status = Status(StatusCode.CANCELLED, "the call was cancelled here")
        self._over.set()
        self._ended(self._status)

    # ---- the call's life ----

    def _ended(self, status: Status) -> None:
        callbacks, self._callbacks = self._callbacks, None
        if callbacks is not None:
            guarded(self._on_failure, self.path, lambda: callbacks.on_end(status))

    def _bug(self, error: BaseException) -> None:
        self._on_failure(self.path, error)
        self.finish(StatusCode.UNKNOWN, f"{type(error).__name__} in a handler")

    def _guarded(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - a handler's bug ends its call only.
            self._bug(error)

    def _writable(self) -> None:
        if self._callbacks is not None:
            self._guarded(self._callbacks.on_writable)

    async def run(self, handler: StreamHandler) -> None:
        """Serves the call until its status is sent, or the client is gone."""
        try:
            self._callbacks = handler(self)
        except Exception as error:  # noqa: BLE001 - a handler's bug ends its call only.
            self._bug(error)
        # A read or a write fails only when the client is gone, which also cancels this task.
        tasks = TaskOwner(lambda _name, _error: self._over.set())
        tasks.start(self._write(), name=f"write {self.path}")
        if self._status is None:
            tasks.start(self._read(), name=f"read {self.path}")
        try:
            await self._over.wait()
        finally:
            await tasks.close(timeout_s=CLOSE_TIMEOUT_S)
            status = self._status or Status(StatusCode.CANCELLED, "the client is gone")
            self._ended(status)
        if status.code is StatusCode.OK:
            self._context.set_trailing_metadata(tuple(status.metadata))
        else:
            code = grpcio_code_of(status.code)
            await self._context.abort(code, status.details, tuple(status.metadata))

    async def _write(self) -> None:
        await self._outgoing.run(self._context.write)
        self._over.set()

    async def _read(self) -> None:
        context = self._context
        while True:
            await self._reading.wait()
            message: Any = await context.read()
            await self._reading.wait()
            callbacks = self._callbacks
            if callbacks is None or self._status is not None:
                return
            if message is grpc.aio.EOF:
                self._guarded(callbacks.on_half_close)
                return
            try:
                callbacks.on_message(message)
            except Exception as error:  # noqa: BLE001 - a handler's bug ends its call only.
                self._bug(error)
