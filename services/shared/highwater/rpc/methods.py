"""The methods of one server, by path: what users add before it starts, and what its calls ask for."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from highwater.rpc.ports import ServerStreamCall, StreamHandler
from highwater.rpc.reports import OnFailure
from highwater.rpc.unary_handler import UnaryHandler
from highwater.runtime.tasks import TaskOwner

Request = TypeVar("Request")
Response = TypeVar("Response")


class Methods:
    """Lives as long as its server, whichever transport that has."""

    def __init__(self, tasks: TaskOwner, on_failure: OnFailure) -> None:
        """`tasks` runs unary calls and is closed by the server; `on_failure` takes their bugs."""
        self._tasks = tasks
        self._on_failure = on_failure
        self._handlers: dict[str, StreamHandler] = {}

    def add_stream(self, path: str, handler: StreamHandler) -> None:
        """Serves /package.Service/Method by callbacks, with messages as bytes."""
        assert path not in self._handlers, f"{path} is served already"
        self._handlers[path] = handler

    def add_unary(
        self,
        path: str,
        handler: Callable[[Request, ServerStreamCall], Awaitable[Response]],
        *,
        deserialize: Callable[[bytes], Request],
        serialize: Callable[[Response], bytes],
    ) -> None:
        """Serves a method with one request and one response; `handler` may raise RpcError."""
        unary = UnaryHandler(
            handler,
            deserialize=deserialize,
            serialize=serialize,
            tasks=self._tasks,
            on_failure=self._on_failure,
        )
        self.add_stream(path, unary)

    def handler_of(self, path: str) -> StreamHandler | None:
        """The method of a path, None if nobody serves it."""
        return self._handlers.get(path)
