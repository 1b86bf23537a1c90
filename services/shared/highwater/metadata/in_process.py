"""Calls a servicer of this process like a gRPC stub; the transport of embedded mode.

Requests and responses are the same protobuf objects, without serialisation: a servicer keeps no
reference to a request and a caller does not change a response.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, NoReturn

import grpc

from highwater.metadata.status import InProcessRpcError


class InProcessContext:
    """The part of grpc.aio.ServicerContext that the controller's servicers use."""

    def __init__(self, timeout_s: float | None) -> None:
        self._deadline = None if timeout_s is None else _now() + timeout_s

    async def abort(
        self,
        code: grpc.StatusCode,
        details: str = "",
        trailing_metadata: tuple[tuple[str, str], ...] = (),
    ) -> NoReturn:
        """Ends the call with an error."""
        raise InProcessRpcError(code, details, tuple(trailing_metadata))

    def time_remaining(self) -> float | None:
        """Seconds until the caller gives up, None if it never does."""
        return None if self._deadline is None else max(0.0, self._deadline - _now())


class InProcessStub:
    """`stub.Method(request, timeout=...)` on a servicer: awaitable, or iterable for streams."""

    def __init__(self, servicer: object) -> None:
        self._servicer = servicer

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The method of that name as a stub's callable."""
        method = getattr(self._servicer, name)

        def call(request: Any, *, timeout: float | None = None, **_: Any) -> Any:
            result = method(request, InProcessContext(timeout))
            if asyncio.iscoroutine(result):
                return _within(result, timeout, name)
            return _stream(result)

        return call


async def _within(call: Coroutine[Any, Any, Any], timeout_s: float | None, name: str) -> Any:
    try:
        async with asyncio.timeout(timeout_s):
            return await call
    except TimeoutError:
        raise InProcessRpcError(
            grpc.StatusCode.DEADLINE_EXCEEDED, f"{name} took longer than {timeout_s} s", ()
        ) from None


async def _stream(responses: AsyncIterator[Any]) -> AsyncIterator[Any]:
    try:
        async for response in responses:
            yield response
    finally:
        close = getattr(responses, "aclose", None)
        if close is not None:
            await close()


def _now() -> float:
    return asyncio.get_running_loop().time()
