"""A rate over the last seconds, measured as Kafka's brokers do (`SampledStat`, `Rate`).

What is recorded goes into windows of a fixed length, of which the last ones count. The rate is their sum
over the time since the first of them began, but at least over all windows but one. So a client that has
rested may send that many windows' worth at once; from then on it gets its rate.

Windows forget. Many connections that share a quota wait for longer than these count, and find them empty
when they come back one after the other, so that all of them together pass several times their quota. So
`held_ms` also counts what is owed: all that came, less the limit's worth of the time that has passed, and who
owes more than all windows but one give waits until he does not.
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import Final

THROTTLE_MS_MAX: Final = 3_600_000
"""The longest delay, an hour. Kafka's has no limit: connections that share a quota get delays one after the
other, and a limit below their sum lets through what all of them send in that time. A quota that is raised or
removed ends delays at once.
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

    __slots__ = ("_limit", "_owed", "_owed_at_ms", "_sums", "_total", "_windows", "used_ms")

    def __init__(self, windows: QuotaWindows) -> None:
        self._windows = windows
        self._sums: deque[list[float]] = deque()
        """(number of the window, sum), at most as many as count, oldest first."""
        self._total = 0.0
        self._limit: float | None = None
        """The last one that `held_ms` was asked about; None if it never was, and nothing is owed."""
        self._owed = 0.0
        self._owed_at_ms = 0
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
        if self._limit is not None:
            self._pay(now_ms, self._limit)
            self._owed = min(self._owed + value, self._limit * THROTTLE_MS_MAX / _MS)

    def delay_ms(self, now_ms: int, limit: float, more: float = 0) -> int:
        """How long to wait until the rate is down to `limit`; 0 if it is not above.

        That is (rate - limit) / limit * time measured. With `more` it is told as if that had come.
        """
        elapsed_ms = self._forget(now_ms)
        over_ms = (self._total + more) * _MS / limit - elapsed_ms - _ROUNDING_MS
        return 0 if over_ms <= 0 else min(THROTTLE_MS_MAX, math.ceil(over_ms))

    def held_ms(self, now_ms: int, limit: float) -> int:
        """As `delay_ms`, also for what windows have forgotten; always with the limit of the moment."""
        if self._limit is None:
            self._owed, self._owed_at_ms = self._total, now_ms
        else:
            self._pay(now_ms, self._limit)
        self._limit = limit
        over_ms = self._owed * _MS / limit - self._least_ms - _ROUNDING_MS
        owed_ms = 0 if over_ms <= 0 else min(THROTTLE_MS_MAX, math.ceil(over_ms))
        return max(owed_ms, self.delay_ms(now_ms, limit))

    def owes(self, now_ms: int) -> bool:
        """True if it has to be kept, however long it has rested."""
        if self._limit is None:
            return False
        self._pay(now_ms, self._limit)
        return self._owed > 0

    def _pay(self, now_ms: int, limit: float) -> None:
        paid = limit * max(0, now_ms - self._owed_at_ms) / _MS
        self._owed, self._owed_at_ms = max(0.0, self._owed - paid), now_ms

    @property
    def _least_ms(self) -> int:
        return max(1, self._windows.count - 1) * self._windows.size_ms

    def _forget(self, now_ms: int) -> int:
        """Drops windows that have passed; how many ms the others were measured in."""
        windows, sums = self._windows, self._sums
        first = now_ms // windows.size_ms - windows.count + 1
        while sums and sums[0][0] < first:
            self._total -= sums.popleft()[1]
        if not sums:
            self._total = 0.0  # Without what rounding has left.
            return self._least_ms
        return max(self._least_ms, now_ms - int(sums[0][0]) * windows.size_ms)
