"""The real clock. Everything that decides by time takes a `highwater.model.time.Clock`."""

import time

from highwater.model.time import Clock

_NS_PER_MS = 1_000_000
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux's monotonic clock stands still while the machine is suspended; this one does not."""


def boot_ms() -> int:
    """Milliseconds that only grow, also while the machine is suspended where the system can tell."""
    return time.clock_gettime_ns(_BOOT_CLOCK) // _NS_PER_MS


class SystemClock(Clock):
    """The machine's clocks, as milliseconds. Stateless, so one object serves a process."""

    __slots__ = ()

    def monotonic_ms(self) -> int:
        """Milliseconds that only grow, from an arbitrary zero."""
        return time.monotonic_ns() // _NS_PER_MS

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch; may jump when the machine's clock is set."""
        return time.time_ns() // _NS_PER_MS
