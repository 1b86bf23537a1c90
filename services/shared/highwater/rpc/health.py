"""The grpc.health.v1 service: Check and Watch, as `runtime.health.GrpcHealth` has them."""

from collections.abc import Callable
from typing import Final, Protocol

from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2

from highwater.rpc.errors import RpcError
from highwater.rpc.methods import Methods
from highwater.rpc.ports import Message, ServerCallbacks, ServerStreamCall
from highwater.rpc.status import Status, StatusCode

SERVICE: Final = "/grpc.health.v1.Health"
WATCHERS_MAX: Final = 1_000
"""Far above the number of peers that look at one node."""


class _Request(Protocol):
    service: str


class RpcHealth:
    """The health of one server.

    Names are unknown (NOT_FOUND) until the first `set_serving`, so call it before the server
    starts. The empty name stands for the whole server, as the health protocol has it.
    """

    def __init__(self, services: tuple[str, ...] = ()) -> None:
        self._names = ("", *services)
        self._statuses: dict[str, int] = {}
        self._watchers: dict[ServerStreamCall, str] = {}

    def add_to(self, methods: Methods) -> None:
        """Adds the Health service; before the server starts."""
        methods.add_unary(
            f"{SERVICE}/Check",
            self._check,
            deserialize=health_pb2.HealthCheckRequest.FromString,
            serialize=health_pb2.HealthCheckResponse.SerializeToString,
        )
        methods.add_stream(f"{SERVICE}/Watch", self._watch)

    async def set_serving(self, *, serving: bool) -> None:
        """Informs all watchers; called at start, when readiness changes, and before a drain."""
        status = (
            health_pb2.HealthCheckResponse.SERVING
            if serving
            else health_pb2.HealthCheckResponse.NOT_SERVING
        )
        changed = [name for name in self._names if self._statuses.get(name) != status]
        self._statuses = dict.fromkeys(self._names, status)
        for call, name in list(self._watchers.items()):
            if name in changed:
                self._tell(call, name)

    async def _check(self, request: _Request, _call: ServerStreamCall) -> object:
        status = self._statuses.get(request.service)
        if status is None:
            raise RpcError(StatusCode.NOT_FOUND, f"no service {request.service!r}")
        return health_pb2.HealthCheckResponse(status=status)

    def _watch(self, call: ServerStreamCall) -> ServerCallbacks:
        def on_message(message: Message) -> None:
            try:
                name = health_pb2.HealthCheckRequest.FromString(bytes(message)).service
            except DecodeError as error:
                call.finish(StatusCode.INTERNAL, f"malformed request: {error}")
                return
            if call in self._watchers:
                call.finish(StatusCode.INTERNAL, "two requests of Watch")
            elif len(self._watchers) >= WATCHERS_MAX:
                call.finish(StatusCode.RESOURCE_EXHAUSTED, "too many watchers")
            else:
                self._watchers[call] = name
                self._tell(call, name)

        return ServerCallbacks(on_message=on_message, on_end=self._forget(call))

    def _forget(self, call: ServerStreamCall) -> Callable[[Status], None]:
        def on_end(_status: Status) -> None:
            self._watchers.pop(call, None)

        return on_end

    def _tell(self, call: ServerStreamCall, name: str) -> None:
        unknown = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        status = self._statuses.get(name, unknown)
        call.send(health_pb2.HealthCheckResponse(status=status).SerializeToString())
