"""The thread of a log directory: fsync, checkpoints, snapshots and removals, off the data path.

Each directory has one, so that a hanging disk stops only its own partitions.
"""

import queue
import threading
from collections.abc import Callable
from typing import Final

from highwater.partition.storage.errors import LogDirFailure

WAITING_MAX: Final = 20_000
"""Jobs that may wait; a directory that is further behind has failed."""

Work = Callable[[], None]


class DirectoryWorker:
    """Runs jobs in order on its own thread; owned by the thread that calls `submit`.

    `post` runs a callback on the owner's thread and may be called from any thread. After the
    first failure no job runs: the directory is offline.
    """

    def __init__(
        self,
        path: str,
        *,
        post: Callable[[Work], None],
        on_failure: Callable[[LogDirFailure], None],
        monotonic_ms: Callable[[], int],
        waiting_max: int = WAITING_MAX,
    ) -> None:
        """`on_failure` is called on the owner's thread, at most once."""
        self._path = path
        self._post = post
        self._on_failure = on_failure
        self._monotonic_ms = monotonic_ms
        self._begun_ms: int | None = None
        """When the running job began, None between jobs. Set by the thread, read by others."""
        self._waiting_max = waiting_max
        self._jobs: queue.SimpleQueue[tuple[Work, Work] | None] = queue.SimpleQueue()
        self._failed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"log-dir {path}", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Queued jobs."""
        return self._jobs.qsize()

    def busy_ms(self) -> int:
        """For how long the running job has run; may be called from any thread."""
        begun_ms = self._begun_ms
        return 0 if begun_ms is None else self._monotonic_ms() - begun_ms

    def submit(self, work: Work, done: Work) -> None:
        """Runs `work` on the thread, then `done` on the owner's; neither after a failure."""
        if self._failed.is_set():
            return
        if self._jobs.qsize() >= self._waiting_max:
            self._fail(LogDirFailure(self._path, OSError(f"{self._waiting_max} jobs are waiting")))
            return
        self._jobs.put((work, done))

    def stop(self, *, timeout_s: float) -> bool:
        """Lets queued jobs finish; False if the thread still runs after the timeout."""
        self._jobs.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            if self._failed.is_set():
                continue
            work, done = job
            self._begun_ms = self._monotonic_ms()
            try:
                work()
            except LogDirFailure as failure:
                self._fail(failure)
            except OSError as error:
                self._fail(LogDirFailure(self._path, error))
            else:
                self._post(done)
            self._begun_ms = None

    def _fail(self, failure: LogDirFailure) -> None:
        if not self._failed.is_set():
            self._failed.set()
            self._post(lambda: self._on_failure(failure))
