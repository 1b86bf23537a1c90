"""A simulated process as the product's coordinators and verifications see it: one replica in a plane.

The names are those of `data_plane.plane.DataPlane` and `data_plane.replica.PartitionReplica`, as far
as `DataPlaneLog`, `MarkerWriter`, `Markers` and `VerifiedAppends` use them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from highwater.hop.append import AppendGroup, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import TopicId
from highwater.model.transactions import MarkerTarget
from highwater.partition.core.producers import ProducerStates
from highwater.partition.core.transitions import Role
from highwater.partition.data_plane.node_group import MarkerGroup, NodeGroup
from tests.sim.role import SimClock

if TYPE_CHECKING:
    from tests.sim.node import NodeProcess


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

    def __init__(self, process: NodeProcess, replica: SimReplica) -> None:
        self._process = process
        self.replica = replica
        self.replicas = {(replica.topic_id, 0): replica}
        self.marker_targets: dict[TopicId, MarkerTarget] = {}

    def append(self, groups: Iterable[AppendGroup]) -> None:
        for group in groups:
            self._process.role.append(group)

    def append_built(self, group: NodeGroup) -> None:
        self._process.role.append_built(group)

    def append_marker(self, group: MarkerGroup) -> None:
        self._process.role.append_marker(group)
