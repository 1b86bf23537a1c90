"""Files that wait to be removed: readers who were sent to them get time to finish.

And what a deleted log means for work on other threads that was begun before.
"""

import errno
import heapq
from collections.abc import Sequence
from typing import Final

_GONE: Final = frozenset({errno.ENOENT, errno.EBADF})


class LogLife:
    """Whether a log was deleted or cut, for its jobs on other threads.

    A job may find its files renamed or removed at any moment, however late it looked whether the
    log is still there. So it works on and, if a file is missing, asks here afterwards. The owner
    sets `ended` before it renames anything; nobody takes it back.
    """

    __slots__ = ("ended", "truncations")

    def __init__(self) -> None:
        self.ended = False
        self.truncations = 0
        """How often the log was cut since it was opened. The owner counts before it looks for
        files that tell of what was cut off: a job that writes one later sees it here."""

    def excuses(self, error: OSError) -> bool:
        """Whether a job failed only because its log was deleted. A file that is missing from a
        living log, and whatever else the system may refuse, is the directory's failure.
        """
        return self.ended and error.errno in _GONE


class DeletionQueue:
    """Paths by the time at which they may go. Bounded by what is on disk; one thread owns it."""

    __slots__ = ("_heap", "_number")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, str]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, paths: Sequence[str], due_ms: int) -> None:
        """Notes paths that may be removed from `due_ms` on (monotonic milliseconds)."""
        for path in paths:
            self._number += 1
            heapq.heappush(self._heap, (due_ms, self._number, path))

    def take_due(self, now_ms: int, most: int) -> list[str]:
        """Takes out what is due, oldest first, but no more than `most` paths."""
        due: list[str] = []
        while self._heap and self._heap[0][0] <= now_ms and len(due) < most:
            due.append(heapq.heappop(self._heap)[2])
        return due
