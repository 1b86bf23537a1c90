"""The group coordinator's log port on top of the data plane: acks=all appends, plain reads."""

import os
from collections.abc import Callable, Mapping

from highwater.hop.append import AppendGroup, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import TopicState
from highwater.model.errors import HighwaterError
from highwater.model.ids import InstanceId, TopicId
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.groups.log_port import LogPlace


class PartitionAwayError(HighwaterError):
    """The coordinator's partition is no longer on this node."""


class DataPlaneLog:
    """A `CoordinatorLog` (groups.log_port) over one topic; `topic` is set when it is known."""

    def __init__(self, plane: DataPlane) -> None:
        self._plane = plane
        self.topic: TopicState | None = None

    def append(
        self,
        partition: int,
        leader_epoch: int,
        batch: bytes,
        on_committed: Callable[[int, int], None],
    ) -> None:
        """Appends with acks=all; `on_committed(error_code, base_offset)` once, now or later."""
        assert self.topic is not None
        # Without an instance: commits of offsets are nobody's traffic and never throttled.
        group = AppendGroup(self.topic.topic_id, partition, leader_epoch, -1, InstanceId(""))
        group.batches.append(memoryview(bytearray(batch)))
        group.nbytes = len(batch)

        def complete(
            _group: AppendGroup, base_offsets: list[int], failures: Mapping[int, Failure] | None
        ) -> None:
            failure = failures.get(0) if failures else None
            on_committed(failure.error_code if failure else 0, base_offsets[0])

        group.on_complete = complete
        self._plane.append([group])

    def read(self, partition: int, offset: int, max_bytes: int) -> bytes:
        """Whole batches from `offset`, below the high watermark."""
        replica = self._replica(partition)
        if offset >= replica.high_watermark:
            return b""
        found = replica.log.read(
            offset, max_bytes, end_offset=replica.high_watermark, min_one_batch=True
        )
        if found is None:
            return b""
        segment = found.segment
        segment.pin()
        try:
            return os.pread(segment.fd, found.length, found.position)
        finally:
            segment.unpin()

    def place(self, partition: int) -> LogPlace:
        """Where the log is. Raises PartitionAwayError."""
        replica = self._replica(partition)
        return LogPlace(
            topic_id=replica.topic_id, partition=partition, directory=replica.log.directory
        )

    def log_start_offset(self, partition: int) -> int:
        """The first offset that is left."""
        return self._replica(partition).log.log_start_offset

    def log_end_offset(self, partition: int) -> int:
        """The offset of the next record."""
        return self._replica(partition).log.log_end_offset

    def _replica(self, partition: int) -> PartitionReplica:
        topic_id = self.topic.topic_id if self.topic is not None else TopicId(b"")
        replica = self._plane.replicas.get((topic_id, partition))
        if replica is None:
            raise PartitionAwayError(
                f"partition {partition} is not here ({ErrorCode.NOT_COORDINATOR.name})"
            )
        return replica
