"""Records that a follower needs and that are not in memory: read on their directory's thread.

So the loop never waits for a disk because of a follower that is far behind. A row whose records
are being read is skipped; it is looked at again when they have come.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from highwater.partition.replication.leader.session_row import SessionRow
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.log.log_slice import LogSlice
from highwater.partition.storage.segment.segment import Segment

BYTES_MAX: Final = 8 << 20
"""Limit of bytes being read, or read and not yet answered, per session; one read may be larger."""
READS_MAX: Final = 16
"""Limit of reads per session: they run before flushes of the same directories."""


class _Read:
    """One range of a segment, and its bytes once they are read."""

    __slots__ = ("data", "leader_epoch", "length", "position", "segment")

    def __init__(self, found: LogSlice, leader_epoch: int) -> None:
        self.segment: Segment = found.segment
        self.position = found.position
        self.length = found.length
        self.leader_epoch = leader_epoch
        self.data: bytes | None = None

    def is_of(self, found: LogSlice, leader_epoch: int) -> bool:
        """Whether it begins at the same place, in the same epoch: a leader truncates nothing."""
        return (
            self.segment is found.segment
            and self.position == found.position
            and self.leader_epoch == leader_epoch
        )


class ColdReads:
    """One session's reads. Single owner, on the node's loop."""

    def __init__(self, look_again: Callable[[SessionRow], None]) -> None:
        """`look_again` is called with a row when its records are read, or when it may read."""
        self._look_again = look_again
        self._reads: dict[SessionRow, _Read] = {}
        self._nbytes = 0
        self._waiting: dict[SessionRow, None] = {}

    def __len__(self) -> int:
        """Rows with a read that is not answered yet, and rows that wait until they may read."""
        return len(self._reads) + len(self._waiting)

    def __contains__(self, row: SessionRow) -> bool:
        """Whether the row has a read, or waits until it may."""
        return row in self._reads or row in self._waiting

    def take(self, row: SessionRow, found: LogSlice) -> memoryview | None:
        """The row's records if they are read; otherwise None, and the read begins. One per row.

        A read has whole batches, perhaps fewer or more than `found`; more are cut off. Raises
        LogDirFailure if the file is too short.
        """
        replica = row.replica
        assert replica is not None
        read = self._reads.get(row)
        if read is None:
            self._begin(row, found)
            read = self._reads.get(row)
        if read is None or read.data is None:
            return None
        self.forget(row)
        if not read.is_of(found, replica.leader_epoch):
            self._begin(row, found)
            return None
        if len(read.data) < read.length:
            why = f"{len(read.data)} of {read.length} bytes at {read.position}"
            raise LogDirFailure(found.segment.file, OSError(why))
        return memoryview(read.data)[: found.length]

    def forget(self, row: SessionRow) -> None:
        """Drop the row's read; then the first row that waits may read."""
        read = self._reads.pop(row, None)
        if read is not None:
            self._nbytes -= read.length
        self._waiting.pop(row, None)
        if self._waiting and len(self._reads) < READS_MAX:
            following = next(iter(self._waiting))
            del self._waiting[following]
            self._look_again(following)

    def clear(self) -> None:
        """Forget all reads when the session ends; results of reads under way are dropped."""
        self._waiting.clear()
        self._reads.clear()
        self._nbytes = 0

    def _begin(self, row: SessionRow, found: LogSlice) -> None:
        replica = row.replica
        assert replica is not None
        if self._reads and (
            len(self._reads) >= READS_MAX or self._nbytes + found.length > BYTES_MAX
        ):
            self._waiting[row] = None
            return
        read = self._reads[row] = _Read(found, replica.leader_epoch)
        self._nbytes += read.length
        replica.log.reader.load(found, partial(self._loaded, row, read))

    def _loaded(self, row: SessionRow, read: _Read, data: bytes) -> None:
        read.data = data
        if self._reads.get(row) is read:
            self._look_again(row)
