"""A channel to an address that is none: whoever told it, its users must go on without that node."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from highwater.http2.ports import Buffer
from highwater.rpc.errors import RpcError
from highwater.rpc.metadata import Metadata
from highwater.rpc.ports import Message, nothing
from highwater.rpc.statistics import Statistics
from highwater.rpc.status import Status, StatusCode

Request = TypeVar("Request")
Response = TypeVar("Response")


class UnreachableChannel:
    """Satisfies `HopChannel`. Every call ends with UNAVAILABLE, as if nobody listened there."""

    def __init__(self, why: str) -> None:
        self._status = Status(StatusCode.UNAVAILABLE, why)

    def stream(
        self,
        path: str,  # noqa: ARG002 - none is reached.
        *,
        on_message: Callable[[Message], None],  # noqa: ARG002
        on_end: Callable[[Status], None],
        on_open: Callable[[], None] = nothing,  # noqa: ARG002
        on_writable: Callable[[], None] = nothing,  # noqa: ARG002
        metadata: Metadata = (),  # noqa: ARG002
        timeout_s: float | None = None,  # noqa: ARG002
        wait_for_ready: bool = False,  # noqa: ARG002
    ) -> "UnreachableCall":
        """See `StreamChannel`."""
        return UnreachableCall(self._status, on_end)

    async def unary(
        self,
        path: str,  # noqa: ARG002
        request: Request,  # noqa: ARG002
        *,
        serialize: Callable[[Request], bytes],  # noqa: ARG002
        deserialize: Callable[[bytearray], Response],  # noqa: ARG002
        timeout_s: float,  # noqa: ARG002
        metadata: Metadata = (),  # noqa: ARG002
        wait_for_ready: bool = False,  # noqa: ARG002
        idempotent: bool = False,  # noqa: ARG002
    ) -> Response:
        """See `RpcChannel`."""
        raise RpcError.of(self._status)

    def statistics(self) -> Statistics | None:
        """There is nothing to count."""
        return None

    async def close(self) -> None:
        """There is nothing to close: calls end by themselves."""


class UnreachableCall:
    """Ends in the next turn of the loop, or when it is cancelled."""

    unsent_bytes = 0

    def __init__(self, status: Status, on_end: Callable[[Status], None]) -> None:
        self._on_end = on_end
        self._handle = asyncio.get_running_loop().call_soon(self._end, status)
        self._ended = False

    def _end(self, status: Status) -> None:
        if not self._ended:
            self._ended = True
            self._handle.cancel()
            self._on_end(status)

    def send(self, parts: Buffer | Sequence[Buffer]) -> None:
        """Nobody takes it."""

    def can_send(self) -> bool:
        """It is never open."""
        return False

    def half_close(self) -> None:
        """Nobody hears it."""

    def pause_reading(self) -> None:
        """Nothing comes."""

    def resume_reading(self) -> None:
        """Nothing comes."""

    def cancel(self) -> None:
        """See `StreamCall`."""
        self._end(Status(StatusCode.CANCELLED, "the call was cancelled here"))
