"""The threads that compress batches anew, for all partitions of a node.

The codecs give up the interpreter's lock, so the loop goes on meanwhile.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from highwater.partition.data_plane.conversions import Converted
from highwater.runtime.logging import Logger

THREADS: Final = 2
"""At once, so many groups (1 MiB and one batch at the most) are unpacked, up to 64 MiB each batch."""
WAITING_BYTES_MAX: Final = 64 << 20
"""Limit of batches that wait or are being converted: 64 groups of full size."""


class ConversionThreads:
    """See the module, and `data_plane.conversions.ConversionThreads`. Used on the node's loop."""

    def __init__(self, log: Logger) -> None:
        """No thread begins before the first conversion."""
        self._log = log
        self._threads: ThreadPoolExecutor | None = None
        self.waiting_bytes = 0
        """Bytes of groups that are not appended yet."""
        self.conversions = 0
        """Groups that were converted."""

    def admit(self, nbytes: int) -> bool:
        """Counts a group; one of any size if none waits."""
        if self.waiting_bytes and self.waiting_bytes + nbytes > WAITING_BYTES_MAX:
            return False
        self.waiting_bytes += nbytes
        return True

    def leave(self, nbytes: int) -> None:
        """Uncounts a group."""
        self.waiting_bytes -= nbytes
        assert self.waiting_bytes >= 0

    def submit(
        self, work: Callable[[], Converted], done: Callable[[Converted | Exception], None]
    ) -> None:
        """Runs `work` on a thread, then `done` on the loop."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, "convert")
        future = asyncio.get_running_loop().run_in_executor(self._threads, work)
        future.add_done_callback(partial(self._ended, done))

    def _ended(
        self,
        done: Callable[[Converted | Exception], None],
        future: "asyncio.Future[Converted]",
    ) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            self.conversions += 1
            done(future.result())
        elif isinstance(error, Exception):
            self._log.error("conversion_failed", exc_info=error)
            done(error)

    def close(self) -> None:
        """Begins no more conversions. Their groups are not answered: no client is left."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
