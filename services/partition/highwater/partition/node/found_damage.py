"""Records damage of a log that the scrubber, a read or an append has found, and starts its repair.

`repairs` heals it.
"""

from collections.abc import Callable, Iterable

from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.node.logs import NodeLogs
from highwater.partition.node.repairs import Repairs
from highwater.partition.storage.errors import DamageFoundError, LogDirFailure, StorageError
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.scrubbing.scrubber import Damage
from highwater.runtime.logging import Logger


class FoundDamage:
    """One per node, on its loop."""

    def __init__(
        self,
        *,
        logs: NodeLogs,
        repairs: Repairs,
        replicas: Callable[[], Iterable[PartitionReplica]],
        log: Logger,
    ) -> None:
        """`replicas` gives all replicas of the node."""
        self._logs = logs
        self._repairs = repairs
        self._replicas = replicas
        self._log = log

    def by_scrubber(self, log: PartitionLog, damage: Damage) -> None:
        """The scrubber found changed records in a closed segment (R13)."""
        self._logs.note_damage(log, damage)
        damaged = (replica for replica in self._replicas() if replica.log is log)
        self._log.error(
            "log_damaged",
            topic=log.topic,
            partition=log.partition,
            file=damage.file,
            position=damage.position,
            first_offset=damage.first,
            end_offset=damage.end,
            what=damage.what,
            others_asked=any(map(self._repairs.damaged, damaged)),
        )

    def by_read(self, replica: PartitionReplica, error: StorageError) -> bool:
        """A read found damage before the scrubber, or in the active segment. True: keep serving.

        One batch is lost, or the rest of its segment. If that segment is active, it is closed, so
        that later appends can be found. If the lost range is not known, the replica serves what it
        can read until other replicas take over.
        """
        log = replica.log
        if not isinstance(error, DamageFoundError):
            self._repairs.damaged(replica, unplaced=str(error))
            return True
        end = error.end
        if end < 0:
            if log.late_writer.writing:
                return True  # The next read finds it again, when the writer thread has ended.
            try:
                log.roll()
            except LogDirFailure as failure:
                replica.log_failed(failure)
                return True
            end = log.log_end_offset
            # Otherwise a restart looks for the log's end in that segment and drops what follows.
            self._logs.keep_flushed(log)
        damage = Damage(
            first=error.first, end=end, file=error.file, position=error.position, what=str(error)
        )
        self.by_scrubber(log, damage)
        return True
