"""Connections above the rate of their address, kept waiting before they are closed (KIP-612).

Closed at once, their clients would come again at once. Nothing that they send is answered meanwhile.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from highwater.gateway.core import reading
from highwater.gateway.routing.client import ClientSession
from highwater.gateway.sockets.connection import Connection

HELD_MAX: Final = 1_000
"""Connections that wait at a time; further ones are closed at once. Each takes a descriptor."""
_MS: Final = 1000
_REASON: Final = "its address is over its connection_creation_rate"


class HeldConnections:
    """See the module. Lives as long as the listener."""

    def __init__(self, call_later: Callable[[float, Callable[[], None]], object]) -> None:
        self._call_later = call_later
        self._waiting = 0
        self.refused = 0
        """How many there were, with those that were closed at once."""

    def hold(self, connection: Connection, ms: int) -> None:
        """Closes a new connection in `ms`, and answers nothing until then."""
        self.refused += 1
        if self._waiting >= HELD_MAX:
            connection.close(_REASON)
            return
        self._waiting += 1
        connection.handler = _Ignored()
        # A transport begins to read after `connection_made`, whatever it is told in there.
        self._call_later(0, partial(connection.pause, reading.MUTED))
        self._call_later(ms / _MS, partial(self._end, connection))

    def _end(self, connection: Connection) -> None:
        self._waiting -= 1
        connection.close(_REASON)  # Nothing happens if it is closed.


class _Ignored:
    """The handler of what is read before reading stops."""

    def produce(self, session: ClientSession, frame: bytearray) -> None:
        """Drops it."""
        session.finished(len(frame))

    fetch = other = produce

    def reply_failed(self, session: ClientSession, error: Exception) -> None:  # noqa: ARG002 - the port's.
        """There are no replies."""
        raise error
