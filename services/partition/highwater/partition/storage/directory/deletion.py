"""Files that wait to be removed, so that readers can finish, and what removes them."""

import heapq
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from highwater.partition.storage.directory.worker import DirectoryWorker
from highwater.partition.storage.log.environment import remove

REMOVED_AT_ONCE: Final = 20
"""Files and directories per job. An orderly stop waits for one job and leaves the rest to the next
start. Removing a large file takes some 15 ms."""


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


class Remover:
    """Removes a directory's paths when they are due, one job at a time.

    It has its own thread: long syncs must not keep a full disk full. Thousands of segments may be due at once,
    and must not make the disk seem stalled, nor delay an orderly stop.
    """

    def __init__(
        self,
        queue: DeletionQueue,
        *,
        new_worker: Callable[[], DirectoryWorker],
        now_ms: Callable[[], int],
        is_online: Callable[[], bool],
    ) -> None:
        self._queue = queue
        self._new_worker = new_worker
        self._now_ms = now_ms
        self._is_online = is_online
        self.worker: DirectoryWorker | None = None
        """Created when something is removed for the first time."""
        self._removing = False

    def remove_due(self) -> int:
        """Begins to remove paths that are due; returns how many this job takes."""
        if self._removing:
            return 0
        due = self._queue.take_due(self._now_ms(), REMOVED_AT_ONCE)
        if not due:
            return 0
        if self.worker is None:
            self.worker = self._new_worker()
        self._removing = True
        self.worker.submit(partial(_remove_all, due), self._removed)
        return len(due)

    def _removed(self) -> None:
        self._removing = False
        if self.worker is not None and self._is_online():
            self.remove_due()


def _remove_all(paths: Sequence[str]) -> None:
    for path in paths:
        remove(path)
