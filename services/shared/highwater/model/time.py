"""Time as an argument: cores and storage take a `Clock`, never the `time` module."""

from typing import Protocol


class Clock(Protocol):
    """Two clocks: one for durations, one for timestamps that people and records see."""

    def monotonic_ms(self) -> int:
        """Milliseconds that only grow; for timeouts, leases and rates."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch; for record timestamps and retention."""
        ...
