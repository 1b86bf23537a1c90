"""Runs long work in slices, between which the event loop runs other callbacks."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from highwater.model.steps import Steps

SLICE_MS: Final = 2.0
"""How long a slice runs before the loop's other callbacks. Work should block the loop for 5 ms at
most, and the last step of a slice may take as long as the rest of it."""

_R = TypeVar("_R")


class Slices:
    """Runs `Steps` on one event loop. It has no state: callers keep their work in order."""

    def __init__(self, monotonic_ms: Callable[[], float], *, slice_ms: float = SLICE_MS) -> None:
        """`monotonic_ms` should have fractions: whole milliseconds make coarse slices."""
        self._monotonic_ms = monotonic_ms
        self._slice_ms = slice_ms

    async def run(self, steps: Steps[_R]) -> _R:
        """Runs all steps, without yielding to the loop if they fit into one slice.

        Raises what a step raises. If it is cancelled, the remaining steps can be run later.
        """
        try:
            while True:
                end_ms = self._monotonic_ms() + self._slice_ms
                while self._monotonic_ms() < end_ms:
                    next(steps)
                await asyncio.sleep(0)
        except StopIteration as stop:
            result: _R = stop.value
            return result
