"""A channel of grpc.aio behind the ports of `rpc`, for users that may not know which one it is."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import grpc.aio

from highwater.rpc.errors import RpcError
from highwater.rpc.grpcio_call import GrpcioCall
from highwater.rpc.grpcio_guard import client_credentials
from highwater.rpc.grpcio_messages import code_of, metadata_of
from highwater.rpc.metadata import Metadata, no_metadata
from highwater.rpc.ports import Message, nothing
from highwater.rpc.reports import OnFailure
from highwater.rpc.status import Status, StatusCode
from highwater.rpc.tls import ClientTls
from highwater.runtime.grpc_channel import open_channel
from highwater.runtime.grpc_options import MESSAGE_BYTES_MAX_DEFAULT
from highwater.runtime.tasks import TaskOwner

CLOSE_TIMEOUT_S = 2.0

Request = TypeVar("Request")
Response = TypeVar("Response")


class GrpcioChannel:
    """Has the methods of `rpc.channel.Channel` that its users need. Made on the running loop."""

    def __init__(
        self,
        address: str,
        *,
        message_bytes_max: int = MESSAGE_BYTES_MAX_DEFAULT,
        idempotent_paths: Sequence[str] = (),
        tls: ClientTls | None = None,
        proof: Callable[[], Metadata] = no_metadata,
        on_failure: OnFailure,
    ) -> None:
        """`idempotent_paths`: reads that gRPC may repeat by itself. `proof`, `on_failure`: see `Channel`.

        Certificates stay as they are at its making.
        """
        self._proof = proof
        self._idempotent_paths = frozenset(idempotent_paths)
        self._channel = open_channel(
            address,
            message_bytes_max=message_bytes_max,
            idempotent_methods=[_service_and_method(path) for path in idempotent_paths],
            credentials=client_credentials(tls),
        )
        self._on_failure = on_failure
        self._tasks = TaskOwner(on_failure)

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
    ) -> GrpcioCall:
        """See `rpc.ports.StreamChannel`."""
        # No serializers: messages are bytes. The stubs do not declare the defaults.
        untyped: Any = self._channel
        method: Any = untyped.stream_stream(path)
        return GrpcioCall(
            lambda: method(
                timeout=timeout_s,
                metadata=(*metadata, *self._proof()),
                wait_for_ready=wait_for_ready,
            ),
            path,
            tasks=self._tasks,
            on_failure=self._on_failure,
            on_message=on_message,
            on_end=on_end,
            on_open=on_open,
            on_writable=on_writable,
            waits_for_ready=wait_for_ready,
        )

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
        """See `Channel.unary`. `idempotent` only for the channel's `idempotent_paths`."""
        assert not idempotent or path in self._idempotent_paths, f"{path} is not repeated here"
        untyped: Any = self._channel
        call: Any = untyped.unary_unary(
            path, request_serializer=serialize, response_deserializer=deserialize
        )(
            request,
            timeout=timeout_s,
            metadata=(*metadata, *self._proof()),
            wait_for_ready=wait_for_ready,
        )
        try:
            response: Response = await call
        except grpc.aio.AioRpcError as error:
            trailing = metadata_of(error.trailing_metadata())
            raise RpcError(code_of(error.code()), error.details() or "", trailing) from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise RpcError(StatusCode.CANCELLED, "the call was cancelled") from None
        return response

    def statistics(self) -> None:
        """grpcio tells nothing of its connections."""

    async def close(self) -> None:
        """Cancels all calls and closes the connection."""
        await self._tasks.close(timeout_s=CLOSE_TIMEOUT_S)
        await self._channel.close(None)


def _service_and_method(path: str) -> tuple[str, str]:
    service, _, method = path.removeprefix("/").partition("/")
    return service, method
