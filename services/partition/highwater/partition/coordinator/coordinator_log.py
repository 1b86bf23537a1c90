"""A coordinator's log port on top of the data plane: acks=all appends, plain reads.

Appends have no deadline here: they end with the high watermark or with the leadership. How long
an answer waits is the coordinator's business.
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Final

from highwater.hop.append import AppendGroup, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import iter_batches
from highwater.model.cluster import TopicState
from highwater.model.errors import HighwaterError
from highwater.model.transactions import TransactionMarker
from highwater.partition.coordinator.log_port import LogPlace
from highwater.partition.core.leader_epochs import NO_EPOCH
from highwater.partition.core.producers import ACCEPT, STRICT_EPOCHS_FROM, ProducerStates
from highwater.partition.core.sequences import NO_SEQUENCE
from highwater.partition.core.verifications import Verification
from highwater.partition.data_plane.node_group import MarkerGroup, NodeGroup
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.data_plane.replica_role import Listener, ReplicaRole
from highwater.partition.storage.errors import (
    CorruptIndexError,
    CorruptLogError,
    DamagedBatchError,
    DamagedHeaderError,
    LogDirFailure,
)
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.log.log_slice import LogSlice

_UNREADABLE: Final = (CorruptIndexError, CorruptLogError, LogDirFailure)
"""Raised by a read because of the log or the disk, not of the offset."""


class PartitionAwayError(HighwaterError):
    """The coordinator's partition is no longer on this node."""


class _OneBatch:
    """Owns the group of one of the coordinator's batches."""

    __slots__ = ("_leads", "_on_committed")

    def __init__(
        self, on_committed: Callable[[int, int], None], leads: Callable[[int, int], bool]
    ) -> None:
        self._on_committed = on_committed
        self._leads = leads

    def take_result(
        self, group: AppendGroup, base_offsets: list[int], failures: Mapping[int, Failure] | None
    ) -> bool:
        """See `AppendOwner`."""
        code = failures[0].error_code if failures else 0
        if code == ErrorCode.REQUEST_TIMED_OUT and not self._leads(
            group.partition, group.leader_epoch
        ):
            # Producers must not take the end of a leadership for "not stored". For the
            # coordinator it is the end of its epoch, whatever becomes of the batch.
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._on_committed(code, base_offsets[0])
        return True


class DataPlaneLog:
    """A `CoordinatorLog` (log_port) over one topic; `topic` is set when it is known."""

    def __init__(self, plane: DataPlane) -> None:
        self._plane = plane
        self.topic: TopicState | None = None
        self._lookers: dict[int, Listener] = {}
        """By partition, the last listener that asked for a high watermark."""

    def append(
        self,
        partition: int,
        leader_epoch: int,
        batch: bytes,
        on_committed: Callable[[int, int], None],
    ) -> None:
        """Appends with acks=all; `on_committed(error_code, base_offset)` once, now or later."""
        assert self.topic is not None
        owner = _OneBatch(on_committed, self.leads)
        group = NodeGroup(self.topic.topic_id, partition, leader_epoch, owner)
        group.batches.append(memoryview(bytearray(batch)))
        group.nbytes = len(batch)
        self._plane.append_built(group)

    def append_marker(
        self,
        partition: int,
        leader_epoch: int,
        marker: TransactionMarker,
        on_committed: Callable[[int, int], None],
    ) -> None:
        """As `append`, for the marker that ends a transaction."""
        assert self.topic is not None
        owner = _OneBatch(on_committed, self.leads)
        group = MarkerGroup(self.topic.topic_id, partition, leader_epoch, owner, (marker,))
        self._plane.append_marker(group)

    def refusal(self, partition: int, leader_epoch: int) -> int:
        """The code with which an append would fail now, 0 if it would not."""
        replica = self._find(partition)
        if replica is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if replica.core.append_epoch != leader_epoch:  # Seldom: then it is looked at closely.
            if replica.failed:
                return ErrorCode.KAFKA_STORAGE_ERROR
            if not self.leads(partition, leader_epoch):
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NOT_ENOUGH_REPLICAS if replica.core.under_min_isr else 0

    def refuse_producer(self, partition: int, producer_id: int, producer_epoch: int) -> int:
        """The code with which a batch of this producer's transaction would fail, 0 if it would not."""
        states = self._replica(partition).log.producers.states
        return _code(states.check_epoch(producer_id, producer_epoch))

    def in_transaction(self, partition: int, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer has a transaction open in the log, in this epoch."""
        return self._producers(partition).in_transaction(producer_id, producer_epoch)

    def ask_verification(
        self, partition: int, producer_id: int, producer_epoch: int
    ) -> Verification:
        """See `Verifications.asked`; what is written has no sequence."""
        verifications = self._producers(partition).verifications
        return verifications.asked(producer_id, producer_epoch, NO_SEQUENCE)

    def grant_verification(
        self, partition: int, producer_id: int, verification: Verification
    ) -> bool:
        """See `Verifications.grant`."""
        replica = self._find(partition)
        if replica is None:
            return False
        return replica.log.producers.states.verifications.grant(producer_id, verification)

    def end_verification(self, partition: int, marker: TransactionMarker) -> None:
        """See `Verifications.ended`."""
        self._producers(partition).verifications.ended(
            marker.producer_id,
            marker.producer_epoch,
            strict=marker.transaction_version >= STRICT_EPOCHS_FROM,
        )

    def _producers(self, partition: int) -> ProducerStates:
        return self._replica(partition).log.producers.states

    def refuse_marker(self, partition: int, marker: TransactionMarker) -> int:
        """The code with which this marker would fail, 0 if it would not."""
        return _code(self._replica(partition).log.producers.states.check_marker(marker))

    def read(self, partition: int, offset: int, max_bytes: int) -> bytes:
        """Whole batches from `offset` on, also those above the high watermark.

        A log that cannot be read goes out of service as for a fetch, so that another replica leads.
        """
        replica = self._replica(partition)
        if replica.failed:
            raise PartitionAwayError(f"the log of partition {partition} has failed")
        try:
            return _read(replica.log, offset, max_bytes)[1]
        except _UNREADABLE as error:
            self._plane.unreadable(replica, error)
            raise

    def recheck(self, partition: int, offset: int) -> None:
        """Reads the batch at `offset` again, which was not sound, as the log itself would."""
        replica = self._replica(partition)
        if replica.failed:
            return
        try:
            _check(replica.log, offset)
        except _UNREADABLE as error:
            self._plane.unreadable(replica, error)
            raise

    def place(self, partition: int) -> LogPlace:
        """Where the log is. Raises PartitionAwayError."""
        replica = self._replica(partition)
        log = replica.log
        # Half: those that were copied were deleted by another node's clock.
        age_ms_max = log.config.delete_retention_ms // 2 if log.extent.gaps else None
        return LogPlace(
            topic_id=replica.topic_id,
            partition=partition,
            directory=log.directory,
            snapshot_age_ms_max=age_ms_max,
        )

    def log_start_offset(self, partition: int) -> int:
        """The first offset that is left."""
        return self._replica(partition).log.log_start_offset

    def log_end_offset(self, partition: int) -> int:
        """The offset of the next record."""
        return self._replica(partition).log.log_end_offset

    def high_watermark(self, partition: int) -> int:
        """Everything below is committed."""
        return self._replica(partition).high_watermark

    def when_committed(self, partition: int, offset: int, tell: Callable[[], object]) -> None:
        """Calls `tell` once the high watermark is there; never if the leadership ends before."""
        replica = self._replica(partition)
        epoch = replica.leader_epoch

        def look(changed: ReplicaRole) -> None:
            over = not changed.leading or changed.leader_epoch != epoch
            if over or changed.high_watermark >= offset:
                changed.listeners = tuple(one for one in changed.listeners if one is not look)
                if not over:
                    tell()

        former = self._lookers.get(partition)
        others = (one for one in replica.listeners if one is not former)
        self._lookers[partition] = look
        replica.listeners = (*others, look)
        look(replica)

    def epoch_before(self, partition: int, offset: int) -> int:
        """The leader epoch of the record before `offset`; -1 if it is not known."""
        replica = self._find(partition)
        if (
            replica is None
            or not replica.log.log_start_offset < offset <= replica.log.log_end_offset
        ):
            return NO_EPOCH
        return replica.log.epochs.cache.epoch_for(offset - 1)

    def leads(self, partition: int, leader_epoch: int) -> bool:
        """True if this node leads the partition in that epoch."""
        replica = self._find(partition)
        return replica is not None and replica.leading and replica.leader_epoch == leader_epoch

    def _find(self, partition: int) -> PartitionReplica | None:
        topic = self.topic
        if topic is None:
            return None
        return self._plane.replicas.get((topic.topic_id, partition))

    def _replica(self, partition: int) -> PartitionReplica:
        replica = self._find(partition)
        if replica is None:
            raise PartitionAwayError(
                f"partition {partition} is not here ({ErrorCode.NOT_COORDINATOR.name})"
            )
        return replica


def _code(verdict: int) -> int:
    return 0 if verdict == ACCEPT else -verdict


def _read(log: PartitionLog, offset: int, max_bytes: int) -> tuple[LogSlice | None, bytes]:
    """Where the batches lie, and the batches. Raises CorruptLogError, LogDirFailure."""
    if offset >= log.log_end_offset:
        return None, b""
    found = log.reader.read(offset, max_bytes, end_offset=log.log_end_offset, min_one_batch=True)
    if found is None:
        return None, b""
    segment = found.segment
    try:
        segment.pin()
        try:
            return found, os.pread(segment.fd, found.length, found.position)
        finally:
            segment.unpin()
    except OSError as error:
        raise LogDirFailure(segment.file, error) from error


def _check(log: PartitionLog, offset: int) -> None:
    """Raises CorruptLogError if the batch that holds `offset` is damaged, LogDirFailure."""
    found, data = _read(log, offset, 1)
    if found is None:
        return
    segment = found.segment
    batch = next(iter_batches(data), None)
    if batch is None:
        bases = [known.base_offset for known in log.extent.all]
        following = bases[bisect_right(bases, segment.base_offset) :]
        raise DamagedHeaderError(
            f"no whole batch at position {found.position}",
            file=segment.path,
            position=found.position,
            first=offset,
            end=following[0] if following else -1,
        )
    if not batch.crc_ok():
        raise DamagedBatchError(
            "the CRC does not match",
            file=segment.path,
            position=found.position,
            first=found.base_offset,
            end=min(max(batch.last_offset, found.base_offset) + 1, log.log_end_offset),
        )
