"""Tells another thread whether an event loop runs.

The thread posts a callback and checks later whether the loop has run it. A process that was stopped,
or a machine that slept, does not count as a hanging loop: the loop has run the callback before, or
runs it at once, and calls `on_return`.
"""

from collections.abc import Callable
from typing import Final

LOOP_SILENT_MS_MAX: Final = 3_000
"""When the loop has not run for this long, the heartbeats stop.

Shorter stalls are normal: a disk under load may take some tenths of a second. With the default
session of 6 s and a heartbeat a second, others lead after 10 s at the latest."""


class LoopWatch:
    """Posts one callback at a time. The thread calls `runs`; all else runs on the loop."""

    def __init__(
        self,
        post: Callable[[Callable[[], None]], None],
        *,
        monotonic_ms: Callable[[], int],
        on_return: Callable[[], None],
        silent_ms_max: int = LOOP_SILENT_MS_MAX,
    ) -> None:
        """`post` makes the loop call a function, from any thread. `on_return` is called on the loop
        when it runs again after `runs` was False.
        """
        self._post = post
        self._monotonic_ms = monotonic_ms
        self._on_return = on_return
        self._silent_ms_max = silent_ms_max
        self._asked_ms: int | None = None
        """When the callback was posted; None if it has run. The thread sets it only while it is
        None, the loop only while it is not, so no lock is needed."""

    def runs(self) -> bool:
        """False if the loop has not run the callback for too long; otherwise posts the next one.

        Call it several times in `silent_ms_max`: a stall is noticed from the next call on.
        """
        asked_ms, now_ms = self._asked_ms, self._monotonic_ms()
        if asked_ms is None:
            self._asked_ms = now_ms
            self._post(self._answer)
            return True
        return now_ms - asked_ms < self._silent_ms_max

    def _answer(self) -> None:
        asked_ms, self._asked_ms = self._asked_ms, None
        assert asked_ms is not None
        if self._monotonic_ms() - asked_ms >= self._silent_ms_max:
            self._on_return()
