"""Limits how fast a pass reads and writes: `log.cleaner.io.max.bytes.per.second`.

Source: Kafka's `org.apache.kafka.storage.internals.utils.Throttler`, which counts both together.
"""

import time
from collections.abc import Callable
from typing import Final

SLEEP_S_MAX: Final = 1.0
"""The longest pause between two calls of `alive`."""
SAVED_S_MAX: Final = 1.0
"""The longest idle time that may be made up for; more would be a burst."""


class Pace:
    """Allows so many bytes per second, and one second's bytes as a burst; 0 is no limit."""

    def __init__(
        self,
        bytes_per_s: int,
        *,
        alive: Callable[[], None],
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`alive` is called during sleeps, at least once per `SLEEP_S_MAX`."""
        self._bytes_per_s = bytes_per_s
        self._alive = alive
        self._now = now
        self._sleep = sleep
        self._due = now()
        """Time at which the bytes so far are within the limit."""

    def passed(self, nbytes: int) -> None:
        """Count bytes that were read or written; return when the next may follow."""
        if not self._bytes_per_s:
            return
        self._due = max(self._due, self._now() - SAVED_S_MAX) + nbytes / self._bytes_per_s
        while (ahead := self._due - self._now()) > 0:
            self._sleep(min(ahead, SLEEP_S_MAX))
            self._alive()
