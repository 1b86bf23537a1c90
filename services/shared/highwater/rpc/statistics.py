"""What a server or a channel tells of its connections, for metrics."""

from collections.abc import Iterable
from dataclasses import dataclass

from highwater.http2.counters import ConnectionCounters


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """One moment. `totals` also counts connections that are gone."""

    connections: int
    unix_connections: int
    """Those of `connections` that are unix sockets."""
    streams: int
    held_bytes: int
    """Received payload that waits for paused readers."""
    unsent_bytes: int
    """Frames that wait for sockets, without what streams still keep."""
    connections_opened: int
    totals: ConnectionCounters


class ClosedConnections:
    """The totals of connections that are gone."""

    __slots__ = ("opened", "totals")

    def __init__(self) -> None:
        self.opened = 0
        """Connections that are open count, too."""
        self.totals = ConnectionCounters()

    def totals_with(self, living: Iterable[ConnectionCounters]) -> ConnectionCounters:
        """The totals of all."""
        totals = ConnectionCounters()
        totals.add(self.totals)
        for counters in living:
            totals.add(counters)
        return totals
