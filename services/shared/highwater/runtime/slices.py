"""Runs long work in slices, so that it leaves the event loop to others in between."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

from highwater.model.steps import Steps

SLICE_MS: Final = 1.0
"""How long slices of one `Slices` run before the loop's other callbacks get their turn. A loop is
to stop for 5 ms at most: the last step may take as long again, what is not in steps comes on top,
and in the embedded mode four services share one loop."""

_R = TypeVar("_R")


def precise_ms() -> float:
    """The machine's monotonic clock in ms, with fractions."""
    return time.monotonic_ns() / 1e6


class Slices:
    """Runs `Steps` on one event loop: one slice in a turn of the loop, whoever's work it is.

    Work that comes while other work runs takes its turn after one slice of that.
    """

    def __init__(
        self,
        monotonic_ms: Callable[[], float] = precise_ms,
        *,
        slice_ms: float = SLICE_MS,
    ) -> None:
        """`monotonic_ms` may have fractions; a clock of whole milliseconds makes coarse slices."""
        self._monotonic_ms = monotonic_ms
        self._slice_ms = slice_ms
        self._turn = asyncio.Lock()
        """Held by the work that is at it; a lock wakes those that wait in order."""
        self._end_ms: float | None = None
        """When the slice of the present turn of the loop ends, None if none has begun."""

    async def run(self, steps: Steps[_R]) -> _R:
        """All steps; returns without giving up the loop if they fit into what is left of a slice.

        Raises what a step raises. If it is cancelled, the steps that are left can be run later.
        """
        try:
            while True:
                async with self._turn:
                    end_ms = self._end_ms_of_turn()
                    while self._monotonic_ms() < end_ms:
                        next(steps)
                    # Within the lock, so that whoever is next begins in another turn.
                    await asyncio.sleep(0)
        except StopIteration as stop:
            result: _R = stop.value
            return result

    def _end_ms_of_turn(self) -> float:
        """The end of this turn's slice, which begins now if no other work has begun it."""
        if self._end_ms is None:
            self._end_ms = self._monotonic_ms() + self._slice_ms
            asyncio.get_running_loop().call_soon(self._turn_ended)
        return self._end_ms

    def _turn_ended(self) -> None:
        self._end_ms = None
