"""Records that a follower has received and its disk has not written yet.

Such a row is late. A fetch acknowledges everything before its offset, so the follower does not
fetch for a late row until the row ends.
"""

from collections.abc import Callable
from typing import Final

from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.storage.log.log import PartitionLog

LATE_BYTES_MAX: Final = 64 << 20
"""Limit over all partitions of the node, the same as for appends that wait for one directory."""


class LateRows:
    """One node's late rows, by replica. On the node's loop."""

    def __init__(
        self,
        *,
        resume: Callable[[PartitionReplica], None],
        flush: Callable[[PartitionLog, Callable[[], None]], None],
        bytes_max: int = LATE_BYTES_MAX,
    ) -> None:
        """`resume` is called for a replica when all its records are written.

        `flush` syncs a log elsewhere and then calls back; it never does if the directory fails.
        """
        self._resume = resume
        self._flush = flush
        self._bytes_max = bytes_max
        self._rows: dict[PartitionReplica, int] = {}
        self.nbytes = 0
        """Bytes that the writer threads still have."""

    def __len__(self) -> int:
        """How many replicas are late."""
        return len(self._rows)

    def __contains__(self, replica: PartitionReplica) -> bool:
        """Whether the replica is late."""
        return replica in self._rows

    def admit(self, replica: PartitionReplica, nbytes: int) -> bool:
        """Count bytes that will be written later; False if too many wait already.

        If none wait, a row of any size is admitted.
        """
        if self.nbytes and self.nbytes + nbytes > self._bytes_max:
            return False
        self._rows[replica] = self._rows.get(replica, 0) + nbytes
        self.nbytes += nbytes
        return True

    def end(self, replica: PartitionReplica) -> None:
        """Resume the replica: all is written, and flushed if the topic asks for that."""
        self.leave(replica)
        self._resume(replica)

    def leave(self, replica: PartitionReplica) -> None:
        """Forget the replica's rows, whether they are written or not."""
        self.nbytes -= self._rows.pop(replica, 0)

    def flush(self, replica: PartitionReplica) -> None:
        """Sync the replica's log; the replica is late until that is done."""
        self._rows.setdefault(replica, 0)
        self._flush(replica.log, lambda: self._flushed(replica))

    def _flushed(self, replica: "PartitionReplica") -> None:
        replica.log_end_moved()
        self.end(replica)
