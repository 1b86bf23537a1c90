"""Shared by all sessions of one event loop: read buffer, memory budget, turns, meters, standstills."""

from typing import Final

from highwater.gateway.core.budget import MemoryBudget
from highwater.gateway.core.meters import Departures, RequestMeters
from highwater.gateway.core.standstill import Standstill
from highwater.gateway.core.turn import Turn

LARGE_FRAME: Final = 64 * 1024
SHARED_BUFFER: Final = 256 * 1024
OUTSTANDING_MAX: Final = 1024
"""Requests of one connection in flight; clients use 5 to 1 000."""


class SharedInput:
    """Made once for each loop; see the module."""

    __slots__ = (
        "budget",
        "buffer",
        "departures",
        "fetches_max",
        "frame_bytes_max",
        "in_flight_bytes_max",
        "large_frame",
        "meters",
        "now_ms",
        "standstill",
        "turn",
        "view",
    )

    def __init__(
        self,
        *,
        turn: Turn,
        budget: MemoryBudget,
        meters: RequestMeters,
        frame_bytes_max: int,
        in_flight_bytes_max: int,
        fetches_max: int = OUTSTANDING_MAX,
        standstill: Standstill,
    ) -> None:
        """Limits of one connection: bytes of requests in flight, and number of Fetch requests.

        `standstill` has a clock that goes on while the machine does not.
        """
        self.turn = turn
        self.budget = budget
        self.meters = meters
        self.departures = Departures(meters)
        turn.when_flushed = self.departures.settle
        self.now_ms = 0
        """When the requests that start now were read, or continued; deadlines count from it."""
        self.fetches_max = fetches_max
        self.frame_bytes_max = frame_bytes_max
        self.large_frame = min(LARGE_FRAME, frame_bytes_max)
        """Frames above this size are large, or refused."""
        self.in_flight_bytes_max = in_flight_bytes_max
        self.standstill = standstill
        self.buffer = bytearray(SHARED_BUFFER)
        self.view = memoryview(self.buffer)
