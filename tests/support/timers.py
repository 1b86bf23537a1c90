"""Timers and a clock that a test moves on."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class _Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Timers:
    """`call_later` is a `highwater.model.time.CallLater`; `advance` runs what is due, in order."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        self._due: list[tuple[float, int, _Timer]] = []
        self._numbers = itertools.count()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> _Timer:
        timer = _Timer(callback)
        heapq.heappush(
            self._due, (self.now_ms + max(0.0, delay_s) * 1000, next(self._numbers), timer)
        )
        return timer

    @property
    def waiting(self) -> int:
        """Timers that were not cancelled."""
        return sum(timer.callback is not None for _, _, timer in self._due)

    def advance(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while self._due and self._due[0][0] <= end_ms:
            at_ms, _, timer = heapq.heappop(self._due)
            callback = timer.callback
            if callback is not None:
                # As a real loop, never early: clocks are in whole milliseconds.
                self.now_ms = max(self.now_ms, round(at_ms))
                timer.callback = None
                callback()
        self.now_ms = end_ms
