"""Records that a session wants and that are not in memory: read on their directory's thread.

The loop never waits for a disk on behalf of a follower that is far behind. A row whose records are
being read is passed over, and looked at again when they are there.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from highwater.partition.replication.leader.session_row import SessionRow
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.log.log_slice import LogSlice
from highwater.partition.storage.segment.segment import Segment

BYTES_MAX: Final = 8 << 20
"""Being read for one session, or read and not yet answered; one read may be larger."""
READS_MAX: Final = 16
"""Of one session: they go before the flushes of the same directories."""


class _Read:
    """One range, and its bytes once they are there."""

    __slots__ = ("data", "leader_epoch", "length", "position", "segment")

    def __init__(self, found: LogSlice, leader_epoch: int) -> None:
        self.segment: Segment = found.segment
        self.position = found.position
        self.length = found.length
        self.leader_epoch = leader_epoch
        self.data: bytes | None = None

    def is_of(self, found: LogSlice, leader_epoch: int) -> bool:
        """Whether it begins there, in the same term: whoever leads cuts nothing."""
        return (
            self.segment is found.segment
            and self.position == found.position
            and self.leader_epoch == leader_epoch
        )


class ColdReads:
    """One session's reads. Single owner, on the node's loop."""

    def __init__(self, look_again: Callable[[SessionRow], None]) -> None:
        """`look_again` gets a row when its records are there, or when it has room."""
        self._look_again = look_again
        self._reads: dict[SessionRow, _Read] = {}
        self._nbytes = 0
        self._waiting: dict[SessionRow, None] = {}

    def __len__(self) -> int:
        """Rows with a read under way or not yet answered, and those that have no room for one."""
        return len(self._reads) + len(self._waiting)

    def __contains__(self, row: SessionRow) -> bool:
        """Whether the row has a read, or waits for one."""
        return row in self._reads or row in self._waiting

    def take(self, row: SessionRow, found: LogSlice) -> memoryview | None:
        """The records of a row if they were read; else None, and they will be. A row has one read.

        What was read is whole batches, perhaps fewer or more than `found`, which it is cut to.
        Raises LogDirFailure if the file is shorter than it has to be.
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
        """Nobody wants the row's records any more; rows that wait for room are looked at."""
        read = self._reads.pop(row, None)
        if read is not None:
            self._nbytes -= read.length
        self._waiting.pop(row, None)
        if self._waiting and len(self._reads) < READS_MAX:
            following = next(iter(self._waiting))
            del self._waiting[following]
            self._look_again(following)

    def clear(self) -> None:
        """The session has ended; reads under way are dropped when they end."""
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
