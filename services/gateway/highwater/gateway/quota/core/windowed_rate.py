"""A rate over the last seconds, measured as Kafka's brokers do (`SampledStat`, `Rate`).

What is recorded goes into windows of a fixed length, of which the last ones count. The rate is their sum
over the time since the first of them began, but at least over all windows but one. So a client that has
rested may send that many windows' worth at once; from then on it gets its rate.
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import Final

THROTTLE_MS_MAX: Final = 300_000
"""The longest delay. Kafka's has no limit: connections that share a quota get delays one after the other,
and a limit below their sum would let all of them through. Connections idle for 10 min are closed.
"""
_MS: Final = 1000
_ROUNDING_MS: Final = 1e-6
"""Which must not become a whole millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaWindows:
    """quota.window.num and quota.window.size.seconds."""

    count: int = 11
    size_ms: int = 1000

    @property
    def span_ms(self) -> int:
        """How long something counts."""
        return self.count * self.size_ms


class WindowedRate:
    """One rate. Times are monotonic ms."""

    __slots__ = ("_sums", "_total", "_windows", "used_ms")

    def __init__(self, windows: QuotaWindows) -> None:
        self._windows = windows
        self._sums: deque[list[float]] = deque()
        """(number of the window, sum), at most as many as count, oldest first."""
        self._total = 0.0
        self.used_ms = 0
        """When it was last asked for (`recent.Recent`)."""

    def record(self, now_ms: int, value: float) -> None:
        """Adds to the present window."""
        self._forget(now_ms)
        sums = self._sums
        number = now_ms // self._windows.size_ms
        if sums and sums[-1][0] == number:
            sums[-1][1] += value
        else:
            sums.append([number, value])
        self._total += value

    def delay_ms(self, now_ms: int, limit: float, more: float = 0) -> int:
        """How long to wait until the rate is down to `limit`; 0 if it is not above.

        That is (rate - limit) / limit * time measured. With `more` it is told as if that had come.
        """
        elapsed_ms = self._forget(now_ms)
        over_ms = (self._total + more) * _MS / limit - elapsed_ms - _ROUNDING_MS
        return 0 if over_ms <= 0 else min(THROTTLE_MS_MAX, math.ceil(over_ms))

    def _forget(self, now_ms: int) -> int:
        """Drops windows that have passed; how many ms the others were measured in."""
        windows, sums = self._windows, self._sums
        first = now_ms // windows.size_ms - windows.count + 1
        while sums and sums[0][0] < first:
            self._total -= sums.popleft()[1]
        least_ms = max(1, windows.count - 1) * windows.size_ms
        if not sums:
            self._total = 0.0  # Without what rounding has left.
            return least_ms
        return max(least_ms, now_ms - int(sums[0][0]) * windows.size_ms)
