"""Runs conversions between message formats one after the other, long ones on a thread."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Generic, NamedTuple, TypeVar

from highwater.gateway.core.budget import MemoryBudget

DECOMPRESSED_BYTES_MAX: Final = 32 << 20
"""What one compressed batch or set may decompress to; while it is converted it takes this twice."""
DECOMPRESSED_SHARE: Final = 8
"""But at most this part of the memory budget, of which both directions may take half together."""
ON_LOOP_BYTES_MAX: Final = 4096
"""Up to this size a conversion takes about a millisecond; a thread would delay its answer."""

Result = TypeVar("Result")


def decompressed_bytes_max(budget: MemoryBudget) -> int:
    """The limit for one batch or set."""
    return min(DECOMPRESSED_BYTES_MAX, budget.limit // DECOMPRESSED_SHARE)


class Conversion(NamedTuple, Generic[Result]):
    """One piece of work; exactly one of `done` and `failed` is called, on the loop."""

    nbytes: int
    """Bytes that the work may take besides its input."""
    work: Callable[[], Result]
    """Shares nothing with the loop but its result."""
    done: Callable[[Result], None]
    failed: Callable[[Exception], None]
    """For bugs: in `work` or in `done`."""


class Conversions(Generic[Result]):
    """The conversions of one direction. Lives as long as the gateway, on its loop.

    They end in the order in which they begin, so a connection's batches keep theirs. One runs at a
    time; while it does, what it may take is counted in the budget.
    """

    __slots__ = ("_budget", "_closed", "_jobs", "_running", "_thread")

    def __init__(self, name: str, budget: MemoryBudget) -> None:
        self._budget = budget
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._jobs: deque[Conversion[Result]] = deque()
        self._running = False
        self._closed = False

    def run(self, job: Conversion[Result]) -> None:
        """Converts: at once if it is little and nothing runs, otherwise on the thread.

        After `close` nobody is called.
        """
        if job.nbytes <= ON_LOOP_BYTES_MAX and not self._running:
            try:
                job.done(job.work())
            except Exception as error:  # noqa: BLE001 - one client's bug, not the connection's.
                job.failed(error)
            return
        self._jobs.append(job)
        if not self._running:
            self._next()

    def close(self) -> None:
        """Forgets the conversions that wait; the one that runs ends for nobody."""
        self._closed = True
        self._jobs.clear()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _next(self) -> None:
        job = self._jobs.popleft()
        self._running = True
        self._budget.charge(job.nbytes)
        running = asyncio.get_running_loop().run_in_executor(self._thread, job.work)
        running.add_done_callback(lambda ended: self._ended(job, ended))

    def _ended(self, job: Conversion[Result], ended: asyncio.Future[Result]) -> None:
        self._budget.release(job.nbytes)
        if self._closed:
            return
        try:
            job.done(ended.result())
        except Exception as error:  # noqa: BLE001 - as in `run`.
            job.failed(error)
        finally:
            # Only now: what `done` starts has to wait behind those that are here.
            self._running = False
            if self._jobs:
                self._next()
