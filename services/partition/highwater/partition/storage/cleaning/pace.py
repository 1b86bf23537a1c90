"""How fast a pass may read and write: `log.cleaner.io.max.bytes.per.second`.

Source: Kafka's `org.apache.kafka.storage.internals.utils.Throttler`, which counts both together.
"""

import time
from collections.abc import Callable
from typing import Final

SLEEP_S_MAX: Final = 1.0
"""Between two signs of life."""
SAVED_S_MAX: Final = 1.0
"""Of time in which less was read and written than may be: more at once would be a burst."""


class Pace:
    """No more bytes than so many a second, and one second's more at once; 0 is no limit."""

    def __init__(
        self,
        bytes_per_s: int,
        *,
        alive: Callable[[], None],
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`alive` is called while it sleeps, at least once in `SLEEP_S_MAX`."""
        self._bytes_per_s = bytes_per_s
        self._alive = alive
        self._now = now
        self._sleep = sleep
        self._due = now()
        """When all that has passed may have."""

    def passed(self, nbytes: int) -> None:
        """So many bytes were read or written; returns when the next may be."""
        if not self._bytes_per_s:
            return
        self._due = max(self._due, self._now() - SAVED_S_MAX) + nbytes / self._bytes_per_s
        while (ahead := self._due - self._now()) > 0:
            self._sleep(min(ahead, SLEEP_S_MAX))
            self._alive()
