"""Time as an argument: cores and storage take a `Clock`, never the `time` module."""

from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Two clocks: one for durations, one for timestamps that people and records see."""

    def monotonic_ms(self) -> int:
        """Milliseconds that only grow; for timeouts, leases and rates."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch; for record timestamps and retention."""
        ...


class Timer(Protocol):
    """What a `CallLater` returns."""

    def cancel(self) -> None:
        """The callback is not called any more; harmless after it was."""
        ...


CallLater = Callable[[float, Callable[[], None]], Timer]
"""Calls the callback after that many seconds, on the caller's loop; asyncio's `call_later` is one."""
