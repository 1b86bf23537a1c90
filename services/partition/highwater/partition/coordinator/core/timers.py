"""Timers in one heap, ordered by deadline; moving one to a later time is cheap.

Thousands of heartbeats a second move their members' deadlines. So moving a timer to a later time
only stores a number; the heap is corrected when the old deadline comes.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from highwater.partition.coordinator.core.values import Moment

_REBUILD_FLOOR = 256
"""A smaller heap is not rebuilt: dropping its dead entries costs more than keeping them."""


class Timer:
    """A deadline that may be set, moved and cancelled; `action` runs when it passes."""

    __slots__ = ("action", "deadline_ms", "queued_ms")

    def __init__(self, action: Callable[[Moment], None]) -> None:
        """Start without a deadline."""
        self.action = action
        self.deadline_ms: int | None = None
        self.queued_ms: int | None = None
        """Deadline of the timer's entry in the heap, never later than `deadline_ms`."""


class TimerHeap:
    """All timers of a shard."""

    __slots__ = ("_heap", "_sequence", "_set")

    def __init__(self) -> None:
        """Start with no timers."""
        self._heap: list[tuple[int, int, Timer]] = []
        self._sequence = 0
        self._set = 0

    def set(self, timer: Timer, deadline_ms: int) -> None:
        """Set the timer to `deadline_ms`; an earlier setting is replaced."""
        if timer.deadline_ms is None:
            self._set += 1
        timer.deadline_ms = deadline_ms
        if timer.queued_ms is None or timer.queued_ms > deadline_ms:
            self._push(timer, deadline_ms)

    def cancel(self, timer: Timer) -> None:
        """Forget the timer's deadline; harmless when it is not set."""
        if timer.deadline_ms is not None:
            self._set -= 1
            timer.deadline_ms = None

    def next_deadline_ms(self) -> int | None:
        """When to call `expire` next; it may turn out that nothing is due then."""
        return self._heap[0][0] if self._heap else None

    def expire(self, now: Moment) -> None:
        """Run every timer whose deadline has passed, in order of deadline."""
        heap = self._heap
        # Timers that an action sets for now or earlier run in the next call. Otherwise a timer
        # that sets itself again without delay would keep this loop running.
        due: list[Timer] = []
        while heap and heap[0][0] <= now.now_ms:
            queued_ms, _, timer = heappop(heap)
            if timer.queued_ms != queued_ms:
                continue  # The timer has a newer entry.
            timer.queued_ms = None
            if timer.deadline_ms is None:
                continue
            if timer.deadline_ms > now.now_ms:
                self._push(timer, timer.deadline_ms)
            else:
                due.append(timer)
        for timer in due:
            # An action before this one may have cancelled or moved the timer.
            deadline_ms = timer.deadline_ms
            if deadline_ms is None or timer.queued_ms is not None:
                continue
            if deadline_ms > now.now_ms:
                self._push(timer, deadline_ms)
                continue
            self.cancel(timer)
            timer.action(now)

    def __len__(self) -> int:
        """How many timers are set."""
        return self._set

    def _push(self, timer: Timer, deadline_ms: int) -> None:
        timer.queued_ms = deadline_ms
        self._sequence += 1
        heappush(self._heap, (deadline_ms, self._sequence, timer))
        if len(self._heap) > _REBUILD_FLOOR and len(self._heap) > 4 * self._set:
            self._rebuild()

    def _rebuild(self) -> None:
        """Drop entries of cancelled and moved timers, so that they do not fill the heap."""
        kept = []
        for queued_ms, sequence, timer in self._heap:
            if timer.queued_ms != queued_ms:
                continue
            if timer.deadline_ms is None:
                timer.queued_ms = None
                continue
            kept.append((queued_ms, sequence, timer))
        self._heap[:] = kept
        heapify(self._heap)
