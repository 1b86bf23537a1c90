"""Notices a log directory whose writes hang, and when it has come round again.

A write to the page cache takes microseconds until the disk falls behind; then it can take seconds,
and the loop with it. After one slow write the directory counts as stalled: its logs are written
by a thread of their own, so that heartbeats and other directories go on.
"""

from typing import Final

SLOW_WRITE_S: Final = 0.050
FAST_WRITE_S: Final = 0.010
FAST_WRITES_TO_RECOVER: Final = 200
"""In a row, on the thread; a disk that is only slow from time to time stays there."""
HUNG_WRITE_MS: Final = 3_000
"""One write of the thread that takes so long: nobody knows whether the disk comes back. As long as a
loop may be silent (`highwater.metadata.loop_watch`), so that it matters little which of them hangs."""
WAITING_BYTES_MAX: Final = 64 << 20
"""Batches that may wait for one directory; 64 groups of full size."""


class StallMonitor:
    """The state of one directory. The owner's thread alone uses it."""

    __slots__ = ("_fast", "stalled", "stalls", "waiting_bytes")

    def __init__(self) -> None:
        """Begins without suspicion."""
        self.stalled = False
        self.stalls = 0
        """How often the directory was found stalled."""
        self.waiting_bytes = 0
        """Batches that wait for the thread, or that it is writing."""
        self._fast = 0

    def slow_write(self) -> None:
        """A write took longer than `SLOW_WRITE_S`."""
        if not self.stalled:
            self.stalls += 1
        self.stalled = True
        self._fast = 0

    def written(self, seconds: float) -> None:
        """A write of the thread took so long."""
        if seconds >= FAST_WRITE_S:
            self._fast = 0
            return
        self._fast += 1
        if self._fast >= FAST_WRITES_TO_RECOVER:
            self.stalled = False

    def admit(self, nbytes: int) -> bool:
        """Counts batches that are to wait, unless too many do; `leave` takes them out again.

        A group alone is always let in, whatever its size.
        """
        if self.waiting_bytes and self.waiting_bytes + nbytes > WAITING_BYTES_MAX:
            return False
        self.waiting_bytes += nbytes
        return True

    def leave(self, nbytes: int) -> None:
        """Batches wait no longer: they were written or refused."""
        self.waiting_bytes -= nbytes
        assert self.waiting_bytes >= 0
