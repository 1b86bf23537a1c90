"""The reply of a request that waits for other services."""

from collections.abc import Callable

from highwater.gateway.core.reply import Reply
from highwater.gateway.routing.client import ClientSession


class HandlerReply(Reply):
    """The reply of a request in a handler; `abandon` runs the handler's cleanup."""

    __slots__ = ("_cleanups", "_session")

    def __init__(self, session: ClientSession, api_key: int, request_bytes: int) -> None:
        super().__init__(api_key, request_bytes, session.arrived_ns)
        self._session = session
        self._cleanups: list[Callable[[], None]] = []

    def on_disconnect(self, cleanup: Callable[[], None]) -> None:
        """Runs `cleanup` if the client leaves before the reply; at once if it has left."""
        if self._session.closed:
            cleanup()
        else:
            self._cleanups.append(cleanup)

    def abandon(self) -> None:
        """Runs the cleanup: the client has disconnected."""
        for cleanup in self._cleanups:
            cleanup()
