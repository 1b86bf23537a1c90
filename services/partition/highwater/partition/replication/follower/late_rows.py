"""What a follower has received and its disk has not taken yet: counted, and resumed when it has.

A row that is late is not asked for again until it ends, since a fetch acknowledges everything
before its offset.
"""

from collections.abc import Callable
from typing import Final

from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.storage.log.log import PartitionLog

LATE_BYTES_MAX: Final = 64 << 20
"""Over all partitions of the node, as much as appends may wait for one directory."""


class LateRows:
    """One node's late rows, by replica; on its loop."""

    def __init__(
        self,
        *,
        resume: Callable[[PartitionReplica], None],
        flush: Callable[[PartitionLog, Callable[[], None]], None],
        bytes_max: int = LATE_BYTES_MAX,
    ) -> None:
        """`resume` is told of a replica whose log has everything that it was given.

        `flush` syncs a log, somewhere else, and then calls back; never if its directory fails.
        """
        self._resume = resume
        self._flush = flush
        self._bytes_max = bytes_max
        self._rows: dict[PartitionReplica, int] = {}
        self.nbytes = 0
        """That the writer threads have in hand."""

    def __len__(self) -> int:
        """Replicas that are late."""
        return len(self._rows)

    def __contains__(self, replica: PartitionReplica) -> bool:
        """Whether the replica is late."""
        return replica in self._rows

    def admit(self, replica: PartitionReplica, nbytes: int) -> bool:
        """Counts bytes that are to be written later; False if too much waits already.

        A row alone is always let in, whatever its size.
        """
        if self.nbytes and self.nbytes + nbytes > self._bytes_max:
            return False
        self._rows[replica] = self._rows.get(replica, 0) + nbytes
        self.nbytes += nbytes
        return True

    def end(self, replica: PartitionReplica) -> None:
        """Everything is written, and flushed if the topic asks for that."""
        self.leave(replica)
        self._resume(replica)

    def leave(self, replica: PartitionReplica) -> None:
        """Nobody waits for the replica's rows any more, whether they are written or not."""
        self.nbytes -= self._rows.pop(replica, 0)

    def flush(self, replica: PartitionReplica) -> None:
        """Syncs what the replica's log has; the replica is late until that is done."""
        self._rows.setdefault(replica, 0)
        self._flush(replica.log, lambda: self._flushed(replica))

    def _flushed(self, replica: "PartitionReplica") -> None:
        replica.log_end_moved()
        self.end(replica)
