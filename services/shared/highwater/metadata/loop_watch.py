"""Whether an event loop runs, as another thread can tell.

The thread posts a callback and looks whether the loop has run it. A process that was stopped, or a
machine that slept, is not taken for a loop that hangs: what was posted before has been run by then,
or is run at once, and `on_return` tells the thread.
"""

from collections.abc import Callable
from typing import Final

LOOP_SILENT_MS_MAX: Final = 3_000
"""A loop that has not run for so long serves nobody, and its thread vouches for it no longer.

Shorter stalls are legitimate: a disk under load may take some tenths of a second. With the default session of 6 s and a heartbeat a second, others lead
after 10 s at the latest."""


class LoopWatch:
    """One question at a time. `runs` belongs to the thread, all else to the loop."""

    def __init__(
        self,
        post: Callable[[Callable[[], None]], None],
        *,
        monotonic_ms: Callable[[], int],
        on_return: Callable[[], None],
        silent_ms_max: int = LOOP_SILENT_MS_MAX,
    ) -> None:
        """`post` has the loop call something, from any thread. `on_return` is called on the loop
        when it runs again after having been given up.
        """
        self._post = post
        self._monotonic_ms = monotonic_ms
        self._on_return = on_return
        self._silent_ms_max = silent_ms_max
        self._asked_ms: int | None = None
        """When the loop was asked; None if it has answered. The thread sets it only while it is
        None, the loop only while it is not, so neither needs a lock."""

    def runs(self) -> bool:
        """False if the loop has left a question unanswered for too long; else asks the next one.

        To be called several times in `silent_ms_max`: a stall shows from the next call on.
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
