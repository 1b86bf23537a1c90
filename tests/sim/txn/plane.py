"""A simulated process as the product's coordinators and verifications see it: one replica in a plane.

The names are those of `data_plane.plane.DataPlane` and `data_plane.replica.PartitionReplica`, as far
as `DataPlaneLog`, `MarkerWriter`, `Markers` and `VerifiedAppends` use them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from highwater.hop.append import AppendGroup, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import TRANSACTIONAL_BIT
from highwater.model.ids import TopicId
from highwater.model.transactions import MarkerTarget, TransactionMarker
from highwater.partition.core.producers import (
    ACCEPT,
    STRICT_EPOCHS_FROM,
    ProducerStates,
)
from highwater.partition.core.replica import ACKS_ALL
from highwater.partition.core.transitions import Role
from highwater.partition.data_plane.node_group import MarkerGroup, NodeGroup, marker_batch
from tests.sim.disk import SimLog
from tests.sim.disk_writes import Produce
from tests.sim.txn.batches import Batches, header_of
from tests.sim.txn.log_files import TransactionalProducers
from tests.sim.txn.loop import SimLoop

if TYPE_CHECKING:
    from tests.sim.node import NodeProcess


class SimClock:
    """Both clocks of one process; the wall clock jumps with faults."""

    def __init__(self, process: NodeProcess) -> None:
        self._process = process

    def monotonic_ms(self) -> int:
        return self._process.world.now

    def wall_ms(self) -> int:
        return self._process.world.now


class SimReplica:
    """The process's replica, whichever it has now, and its log."""

    gaps = False
    directory = "/data"

    def __init__(self, process: NodeProcess, topic_id: TopicId, topic_name: str) -> None:
        self._process = process
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partition = 0
        self.clock = SimClock(process)
        self.listeners: tuple[Callable[[SimReplica], None], ...] = ()

    @property
    def core(self) -> Any:
        return self._process.replica

    @property
    def leading(self) -> bool:
        return self._process.replica.role is Role.LEADER

    @property
    def failed(self) -> bool:
        return self._process.replica.role is Role.OFFLINE

    @property
    def leader_epoch(self) -> int:
        return int(self._process.replica.leader_epoch)

    @property
    def high_watermark(self) -> int:
        return int(self._process.replica.high_watermark)

    @property
    def states(self) -> ProducerStates:
        return self._process.log.producers

    # A log has its epochs, its extent and its producers in parts of their own; here all is one.

    @property
    def log(self) -> SimReplica:
        return self

    @property
    def config(self) -> SimReplica:
        return self

    @property
    def extent(self) -> SimReplica:
        return self

    @property
    def producers(self) -> SimReplica:
        return self

    @property
    def epochs(self) -> SimReplica:
        return self

    @property
    def cache(self) -> Any:
        return self._process.log.epochs

    @property
    def log_start_offset(self) -> int:
        return self._process.log.start

    @property
    def log_end_offset(self) -> int:
        return self._process.log.end

    def not_leader(self) -> Failure:
        return Failure(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def tell_listeners(self) -> None:
        for listener in self.listeners:
            listener(self)


class SimPlane:
    """All replicas of a process, which is one."""

    def __init__(
        self, process: NodeProcess, replica: SimReplica, batches: Batches, loop: SimLoop
    ) -> None:
        self._process = process
        self._batches = batches
        self._loop = loop
        self.replica = replica
        self.replicas = {(replica.topic_id, 0): replica}
        self.marker_targets: dict[TopicId, MarkerTarget] = {}

    def append(self, groups: list[AppendGroup]) -> None:
        """Each group has one batch, and an owner."""
        for group in groups:
            self.append_one(group, self._batches.add(bytes(group.batches[0])))

    def append_built(self, group: AppendGroup) -> None:
        """As `append`: every batch is judged here."""
        self.append([group])

    def append_one(self, group: AppendGroup, value: int) -> None:
        """`value` is the number of the group's batch."""
        self._append(group, value, partial(judge_batch, self._batches[value], group))

    def append_marker(self, group: MarkerGroup) -> None:
        """Each marker is an append of its own here, and all together have one answer."""
        told = _AnsweredTogether(group)
        for place, marker in enumerate(group.markers):
            data = bytes(marker_batch(marker, 0, 0, 0))
            answer = partial(told.answered, place)
            self._append(group, self._batches.add(data), partial(judge_marker, marker), answer)

    def _append(
        self,
        group: AppendGroup,
        value: int,
        judge: Callable[[SimLog, Produce], int],
        answered: Callable[[str, tuple[Any, ...]], None] | None = None,
    ) -> None:
        answer = partial(self._loop.run, answered or partial(_answered, group))
        produce = Produce(answer, 0, group.leader_epoch, ACKS_ALL, value, -1, -1, judge)
        self._process.append(produce)


class _AnsweredTogether:
    """Gives the markers' outcomes to their group once all are there."""

    def __init__(self, group: MarkerGroup) -> None:
        self._group = group
        self._offsets = [-1] * len(group.markers)
        self._failures: dict[int, Failure] = {}
        self._left = len(group.markers)

    def answered(self, place: int, name: str, args: tuple[Any, ...]) -> None:
        if name == "on_appended":
            self._offsets[place] = args[1]
        else:
            code = args[1] if name == "on_refused" else ErrorCode.REQUEST_TIMED_OUT
            self._failures[place] = Failure(code)
        self._left -= 1
        if not self._left:
            self._group.complete(self._offsets, self._failures or None)


def _answered(group: AppendGroup, name: str, args: tuple[Any, ...]) -> None:
    if name == "on_appended":
        group.complete([args[1]])
    elif name == "on_refused":
        group.fail(Failure(args[1]))
    else:
        group.fail(Failure(ErrorCode.REQUEST_TIMED_OUT))


def judge_batch(data: bytes, group: AppendGroup, log: SimLog, _: Produce) -> int:
    """As the middle of `PartitionReplica.append`."""
    header = header_of(data)
    if header[9] < 0:
        return ACCEPT
    assert header[5] & TRANSACTIONAL_BIT
    of_node = isinstance(group, NodeGroup)
    verdict = log.producers.append_transactional(
        header[9], header[10], header[11], header[6], log.end, header[8], may_begin=of_node
    )
    if verdict == ACCEPT:
        _judged(log)
    return verdict


def judge_marker(marker: TransactionMarker, log: SimLog, _: Produce) -> int:
    """As `PartitionReplica.append_marker`."""
    states = log.producers
    verdict = states.check_marker(marker)
    if verdict != ACCEPT:
        return verdict
    strict = marker.transaction_version >= STRICT_EPOCHS_FROM
    states.verifications.ended(marker.producer_id, marker.producer_epoch, strict=strict)
    ended = states.record_marker(
        marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, log.end, 0
    )
    noted = _judged(log)
    if ended is not None and not marker.committed:
        noted.aborted.append(ended)
    return ACCEPT


def _judged(log: SimLog) -> TransactionalProducers:
    noted = log.noted
    assert isinstance(noted, TransactionalProducers)
    noted.judged_end = log.end + 1
    return noted
