"""Notices when writes to a log directory hang, and when they are fast again.

A write to the page cache takes microseconds until the disk falls behind; then it can take seconds,
and block the loop as long. After one slow write the directory counts as stalled: a thread of its
own writes to its logs, so that heartbeats and other directories go on.
"""

from typing import Final

SLOW_WRITE_S: Final = 0.050
FAST_WRITE_S: Final = 0.010
FAST_WRITES_TO_RECOVER: Final = 200
"""Consecutive fast writes of the thread that end a stall; a disk with slow spells stays stalled."""
HUNG_WRITE_MS: Final = 3_000
"""A write of the thread that takes longer may never end. It is also how long a loop may be silent
(`highwater.metadata.loop_watch`), so that it matters little which of them hangs."""
WAITING_BYTES_MAX: Final = 64 << 20
"""Limit of batches that wait for one directory: 64 groups of full size."""


class StallMonitor:
    """The state of one directory. Only the owner's thread uses it."""

    __slots__ = ("_fast", "stalled", "stalls", "waiting_bytes")

    def __init__(self) -> None:
        """Start as not stalled."""
        self.stalled = False
        self.stalls = 0
        """How often the directory was found stalled."""
        self.waiting_bytes = 0
        """Bytes of batches that wait for the thread, or that it is writing."""
        self._fast = 0

    def slow_write(self) -> None:
        """Note a write that took longer than `SLOW_WRITE_S`: the directory is stalled."""
        if not self.stalled:
            self.stalls += 1
        self.stalled = True
        self._fast = 0

    def written(self, seconds: float) -> None:
        """Note how long a write of the thread took; enough fast ones end the stall."""
        if seconds >= FAST_WRITE_S:
            self._fast = 0
            return
        self._fast += 1
        if self._fast >= FAST_WRITES_TO_RECOVER:
            self.stalled = False

    def admit(self, nbytes: int) -> bool:
        """Count batches that will wait; False if too many wait. `leave` uncounts them.

        If none wait, a group of any size is admitted.
        """
        if self.waiting_bytes and self.waiting_bytes + nbytes > WAITING_BYTES_MAX:
            return False
        self.waiting_bytes += nbytes
        return True

    def leave(self, nbytes: int) -> None:
        """Uncount batches that were written or refused."""
        self.waiting_bytes -= nbytes
        assert self.waiting_bytes >= 0
