"""DeleteRecords in a node process: where its log begins, and from when the disk knows it.

As `RecordDeletions` and `ReplicaRole.keep_log_start` of the partition service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.partition.core import replica_events as on
from highwater.partition.core.refusals import refuse_deletion
from highwater.partition.core.transitions import Role
from tests.sim.disk import SimLog

if TYPE_CHECKING:
    from tests.sim.node import NodeProcess

KEEP_MS_MAX = 30
PAUSED_MS = 20


class Deletions:
    """One process's, from its start to its end."""

    def __init__(self, process: NodeProcess) -> None:
        self._process = process
        self._waiting: list[tuple[int, int]] = []
        """Leader epoch and offset of each deletion that is not answered."""
        self._keeping: SimLog | None = None
        """The log whose start is being written down."""

    def ask(self, offset: int) -> None:
        """A client wants the log to begin at the offset."""
        process, replica = self._process, self._process.replica
        if replica.role is not Role.LEADER or refuse_deletion(offset, replica.high_watermark):
            return
        self._waiting.append((replica.leader_epoch, offset))
        process.handle(on.DeleteRecordsAsked(offset=offset))
        process.answer_parked()
        self._keep()
        self._answer()

    def follow(self, log_start: int) -> None:
        """The leader's log begins there."""
        process, log = self._process, self._process.log
        if log_start > log.start:
            log.delete_before(min(log_start, process.replica.high_watermark))
            process.replica.log_start_moved(log.start)
        if process.world.options.deletes:
            self._keep()

    @property
    def told_start(self) -> int:
        """The log start that a follower which waits is told; 0 if that can wait for records."""
        return self._process.log.start if self._process.world.options.deletes else 0

    def heard(self, node: int, kept_log_start: int) -> None:
        """A follower has fetched, and said where its log begins."""
        self._process.replica.followers[node].keeps(kept_log_start)
        self._answer()

    def _keep(self) -> None:
        process, log, world = self._process, self._process.log, self._process.world
        if self._keeping is log or process.replica.kept_log_start >= log.start:
            return
        self._keeping = log
        delay_ms = max(log.hangs_until_ms - world.now, 0)
        delay_ms += 1 + world.faults.deletions.randrange(KEEP_MS_MAX)
        world.after(delay_ms, self._kept, log, log.start, log.truncations)

    def _kept(self, log: SimLog, start: int, truncations: int) -> None:
        process = self._process
        if process.world.processes.get(process.node) is not process or process.log is not log:
            return
        if process.paused:
            process.world.after(PAUSED_MS, self._kept, log, start, truncations)
            return
        self._keeping = None
        if process.replica.role not in (Role.LEADER, Role.FOLLOWER):
            return
        if truncations == log.truncations:
            log.kept_start = max(log.kept_start, start)
            process.replica.log_start_moved(start)
            process.handle(on.LogStartKept(log_start_offset=start))
        self._keep()
        process.fetch()
        self._answer()

    def _answer(self) -> None:
        """Answers what all live replicas have on their disks; a deposed leader forgets the others."""
        replica = self._process.replica
        if not self._waiting or replica.role is not Role.LEADER:
            return
        low = replica.low_watermark()
        for epoch, offset in self._waiting:
            if epoch == replica.leader_epoch and offset <= low:
                self._process.world.observer.deleted(self._process, offset)
        self._waiting = [
            one for one in self._waiting if one[0] == replica.leader_epoch and one[1] > low
        ]
