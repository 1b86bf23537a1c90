"""Knows whether what a connection brings may be old, because this process stood still.

While a process is stopped or swapped out, the kernel goes on taking connections and bytes for it; so does
the client's while the machine is suspended. Their clients may have given up long before they are read.
"""

from collections.abc import Callable
from typing import Final

STANDSTILL_MS: Final = 3_000
"""Looks that are so far apart are a standstill. Clients wait longer for an answer before they give up."""
BACKLOG_MS: Final = 1_000
"""So long after a standstill the connections that came during it may still be accepted."""


class Standstill:
    """Of one gateway. `look` at least once a second; times are the clock's, in milliseconds."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """The clock should go on while the machine is suspended."""
        self.now_ms = now_ms
        self._looked_ms = now_ms()
        self._over_ms: int | None = None
        """When the last standstill was over; None if there was none."""

    def look(self) -> None:
        """Notes that the process runs."""
        now_ms = self.now_ms()
        if now_ms - self._looked_ms >= STANDSTILL_MS:
            self._over_ms = now_ms
        self._looked_ms = now_ms

    def makes_old(self, accepted_ms: int) -> bool:
        """True if what comes by a connection of that time may have been sent before or in a standstill.

        It stays so for as long as the connection lives: more may wait at the client's end.
        """
        self.look()  # After a standstill the loop reads from sockets before it looks at the clock.
        return self._over_ms is not None and accepted_ms < self._over_ms + BACKLOG_MS
