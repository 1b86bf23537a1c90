"""Files that wait to be removed, so that readers can finish."""

import heapq
from collections.abc import Sequence


class DeletionQueue:
    """Paths by the time of their removal. Bounded by what is on disk; used on one thread."""

    __slots__ = ("_heap", "_number")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, str]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, paths: Sequence[str], due_ms: int) -> None:
        """Adds paths that may be removed from `due_ms` on (monotonic milliseconds)."""
        for path in paths:
            self._number += 1
            heapq.heappush(self._heap, (due_ms, self._number, path))

    def take_due(self, now_ms: int, most: int) -> list[str]:
        """Takes at most `most` paths that are due, oldest first."""
        due: list[str] = []
        while self._heap and self._heap[0][0] <= now_ms and len(due) < most:
            due.append(heapq.heappop(self._heap)[2])
        return due
