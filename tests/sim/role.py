"""A simulated process's replica as the product's data plane has it: appends, their answers, reads.

`PartitionReplica` is the product's, with its `AppendAnswers` and `Waiters`: what is appended, refused or
known, what waits for what, and what a group is told when its leader's epoch ends, are decided by the
code that nodes run. Under it are a simulated log and disk (`log_view`), and what the state machine wants
is carried out by the process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from highwater.hop.append import AppendGroup, AppendOwner, Failure
from highwater.hop.fetch import FetchedPartition, FetchPartition
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import TopicId
from highwater.partition.core import replica_effects as effect
from highwater.partition.core import replica_events as on
from highwater.partition.core.replica import ACKS_ALL, Replica
from highwater.partition.data_plane.node_group import MarkerGroup, NodeGroup
from highwater.partition.data_plane.policy import AppendPolicy
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.data_plane.replica_role import ReplicaRole
from highwater.partition.storage.log.log import PartitionLog
from tests.sim.log_view import LogView

if TYPE_CHECKING:
    from tests.sim.node import NodeProcess

POLICY: Final = AppendPolicy()
TOPIC: Final = TopicId(bytes(16))
READ_BYTES: Final = 1 << 20


class SimClock:
    """Both clocks of one process; the wall clock jumps with faults."""

    def __init__(self, process: NodeProcess) -> None:
        self._process = process

    def monotonic_ms(self) -> int:
        return self._process.world.now

    def wall_ms(self) -> int:
        return self._process.world.now


class SimRole(PartitionReplica):
    """Lives as long as the process's `Replica`."""

    def __init__(self, process: NodeProcess, core: Replica) -> None:
        log: Any = LogView(process, process.log)
        super().__init__(
            policy=POLICY,
            on_log_failure=_cannot_fail,
            topic_id=TOPIC,
            topic_name="",
            partition=0,
            log=log,
            log_dir=0,
            clock=SimClock(process),
            flush=self._flush,
        )
        self._process = process
        self.core = core
        self.told_high_watermark = core.high_watermark
        """The last one of which the product's code was told."""
        self.answers = process.world.bug.answers(self, append=self._append_queued)
        self.listeners = (self._tell_process,)

    def _flush(self, log: PartitionLog, done: Callable[[], None]) -> None:
        self._process.disk.flush(log, done)

    def _tell_process(self, _role: ReplicaRole) -> None:
        self._process.answer_parked()
        self._process.part.log_changed()

    # ---- the state machine: the process carries its effects out ----

    def handle(self, event: on.Event) -> None:
        self._process.handle(event)
        self.tell_listeners()

    def ask_port(
        self, wanted: effect.StartFollowing | effect.StopFollowing | effect.ProposeIsr
    ) -> None:
        """Only asked to let a follower fetch that had to wait for its disk."""
        assert isinstance(wanted, effect.StartFollowing)
        self._process.fetch()

    def commit_to(self, high_watermark: int) -> None:
        self.told_high_watermark = high_watermark
        if self.leading:
            self._process.world.observer.committed(self._process)
        self._process.part.run(super().commit_to, high_watermark)

    def written_late(self, epoch: int, next_offset: int, nbytes: int) -> None:
        super().written_late(epoch, next_offset, nbytes)
        self._process.world.observer.written_late(self._process, self._process.disk.written_from)

    def stop(self) -> None:
        """The epoch of this leader has ended, or its log has failed."""
        code = self.storage_error if self.failed else ErrorCode.REQUEST_TIMED_OUT
        self._process.part.run(self._stopped_leading, code)

    # ---- appends ----

    def append(self, group: AppendGroup, waited: bool = False) -> None:
        self._watch(group)
        if not self._has_no_space(group):
            self._process.part.run(super().append, group, waited)

    def append_marker(self, group: MarkerGroup, waited: bool = False) -> None:
        self._watch(group)
        if not self._has_no_space(group):
            self._process.part.run(super().append_marker, group, waited)

    def append_built(self, group: NodeGroup) -> None:
        self._watch(group)
        if not self._has_no_space(group):
            self._process.part.run(super().append_built, group)

    def _has_no_space(self, group: AppendGroup) -> bool:
        """Refuses the group if the disk is full; the log may fail with the attempt."""
        refused = self.core.refuse_append(group.leader_epoch, group.acks)
        if refused or not self._process.is_full():
            return False
        if not group.completed:
            group.fail(Failure(ErrorCode.KAFKA_STORAGE_ERROR))
        return True

    def _watch(self, group: AppendGroup) -> None:
        if not isinstance(group.owner, _Watched):
            group.owner = _Watched(self._process, group.owner)  # type: ignore[misc]  # as its first.

    # ---- reads ----

    def read(self, epoch: int, offset: int, last_epoch: int, isolation: int) -> FetchedPartition:
        """What a consumer is answered; records are entries."""
        asked = FetchPartition(TOPIC, 0, epoch, offset, last_epoch, READ_BYTES)
        return self.fetch(asked, READ_BYTES, isolation, True)


class _Watched:
    """Owns a group instead of its owner: the observer hears of all that is acknowledged."""

    def __init__(self, process: NodeProcess, owner: AppendOwner | None) -> None:
        self._process = process
        self._owner = owner

    def take_result(
        self,
        group: AppendGroup,
        base_offsets: list[int],
        failures: Mapping[int, Failure] | None,
    ) -> bool:
        """See `AppendOwner`."""
        process, observer = self._process, self._process.world.observer
        for offset in base_offsets:
            if offset >= 0 and group.acks == ACKS_ALL:
                observer.acknowledges(process, offset)
            elif offset >= 0:
                observer.acknowledges_alone(process, offset)
        return self._owner is not None and self._owner.take_result(group, base_offsets, failures)


def _cannot_fail(_replica: PartitionReplica, error: Exception) -> None:
    raise AssertionError("a simulated log fails by an event") from error
