"""Serves a method with one request and one response by a coroutine."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from highwater.rpc.errors import RpcError
from highwater.rpc.ports import Message, ServerCallbacks, ServerStreamCall
from highwater.rpc.reports import OnFailure
from highwater.rpc.status import Status, StatusCode
from highwater.runtime.tasks import TaskOwner

Request = TypeVar("Request")
Response = TypeVar("Response")


class UnaryHandler(Generic[Request, Response]):
    """A `StreamHandler`. Each call runs as a task of the server's, which ends with the call.

    A request waits for its client's half-close, as long as that takes, and with its window given
    back; hence it counts as kept.
    """

    def __init__(
        self,
        handler: Callable[[Request, ServerStreamCall], Awaitable[Response]],
        *,
        deserialize: Callable[[bytes], Request],
        serialize: Callable[[Response], bytes],
        tasks: TaskOwner,
        on_failure: OnFailure,
    ) -> None:
        """`handler` raises RpcError to refuse a call; what else it raises is a bug."""
        self._handler = handler
        self._deserialize = deserialize
        self._serialize = serialize
        self._tasks = tasks
        self._on_failure = on_failure

    def __call__(self, call: ServerStreamCall) -> ServerCallbacks:
        """Takes a call."""
        request = _OneMessage(call, self._start)
        return ServerCallbacks(
            on_message=request.on_message,
            on_half_close=request.on_half_close,
            on_end=request.on_end,
            keeps_messages=True,
        )

    def _start(self, call: ServerStreamCall, message: Message) -> "asyncio.Task[None] | None":
        try:
            # Generated code declares bytes and takes any buffer.
            request = self._deserialize(message)  # type: ignore[arg-type]
        except Exception as error:  # noqa: BLE001 - libraries differ in what they raise.
            call.finish(StatusCode.INTERNAL, f"malformed request: {error}")
            return None
        return self._tasks.start(self._run(call, request), name=call.path)

    async def _run(self, call: ServerStreamCall, request: Request) -> None:
        try:
            response = self._serialize(await self._handler(request, call))
        except RpcError as error:
            call.finish(error.code, error.details, error.metadata)
        except Exception as error:  # noqa: BLE001 - a handler's bug ends its call only.
            self._on_failure(call.path, error)
            call.finish(StatusCode.UNKNOWN, f"{type(error).__name__} in a handler")
        else:
            call.send(response)
            call.finish()


class _OneMessage:
    """The request of one call, and the task that answers it."""

    __slots__ = ("_call", "_message", "_start", "_task")

    def __init__(
        self,
        call: ServerStreamCall,
        start: "Callable[[ServerStreamCall, Message], asyncio.Task[None] | None]",
    ) -> None:
        self._call = call
        self._start = start
        self._message: Message | None = None
        self._task: asyncio.Task[None] | None = None

    def on_message(self, message: Message) -> None:
        if self._message is None:
            self._message = message
        else:
            self._call.finish(StatusCode.INTERNAL, "two requests of a unary call")

    def on_half_close(self) -> None:
        if self._message is None:
            self._call.finish(StatusCode.INTERNAL, "no request of a unary call")
        else:
            message, self._message = self._message, b""
            self._task = self._start(self._call, message)

    def on_end(self, _status: Status) -> None:
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
