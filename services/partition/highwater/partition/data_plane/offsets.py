"""ListOffsets, OffsetsForLeaderEpoch and DescribeProducers for the leaders of this node.

Special timestamps are Kafka's (ListOffsetsRequest): -1 latest, -2 earliest, -3 max timestamp
(KIP-734), -4 earliest local, -5 latest tiered and -6 earliest pending upload (KIP-405, KIP-1023;
there is no tier, so -4 is -2, and -5 and -6 have no offset).

The batch that a timestamp leads to is read and decoded on a thread, since it may have many thousand
records, and may not be in memory.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.fetch import READ_COMMITTED
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import TopicId
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.storage.errors import (
    CorruptLogError,
    LogDirFailure,
    StorageError,
)
from highwater.partition.storage.log.timestamp_lookup import BatchQuestion, Found
from highwater.partition.storage.log.timestamp_search import Search

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
NONE: Final = -1


class OffsetQueries:
    """Only reads; reports failed directories to `on_log_failure`, damaged logs to the plane."""

    def __init__(
        self,
        plane: DataPlane,
        on_log_failure: Callable[[PartitionReplica, LogDirFailure], None],
    ) -> None:
        self._plane = plane
        self._on_log_failure = on_log_failure
        self._decoding: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        """By log directory, held while a batch is decoded: one at a time, so that neither a disk that
        hangs nor large batches take all threads and memory."""

    async def list_offsets(self, request: pb.ListOffsetsRequest) -> pb.ListOffsetsResponse:
        """Answers in the order of the request."""
        committed = request.isolation_level == READ_COMMITTED
        return pb.ListOffsetsResponse(
            results=[await self._offset(p, committed) for p in request.partitions]
        )

    def offsets_for_leader_epoch(
        self, request: pb.OffsetsForLeaderEpochRequest
    ) -> pb.OffsetsForLeaderEpochResponse:
        """Answers in the order of the request."""
        return pb.OffsetsForLeaderEpochResponse(
            results=[self._epoch_end(p) for p in request.partitions]
        )

    async def describe_producers(
        self, request: pb.DescribeProducersRequest
    ) -> pb.DescribeProducersResponse:
        """Answers in the order of the request."""
        answer = pb.DescribeProducersResponse()
        for asked in request.partitions:
            answer.results.append(self._producers(asked))
            # The limit of 100 000 producers takes a third of a second: not two of them in one turn.
            await asyncio.sleep(0)
        return answer

    def _replica(
        self,
        asked: pb.ListOffsetsPartition | pb.EpochQuestion | pb.ProducersQuestion,
        leader_epoch: int,
    ) -> tuple[PartitionReplica | None, int]:
        replica = self._plane.replicas.get((TopicId(asked.topic_id), asked.partition))
        if replica is None:
            return None, ErrorCode.NOT_LEADER_OR_FOLLOWER
        return replica, replica.core.refuse_fetch(leader_epoch)

    async def _offset(
        self, asked: pb.ListOffsetsPartition, committed: bool
    ) -> pb.ListOffsetsResult:
        replica, refused = self._replica(asked, asked.current_leader_epoch)
        if replica is None or refused:
            return _failed(refused)
        try:
            try:
                return await self._resolve(replica, asked.timestamp, committed)
            except CorruptLogError as error:
                if not self._plane.damaged(replica, error) or replica.failed:
                    return _failed(replica.core.refuse_fetch(-1) or ErrorCode.KAFKA_STORAGE_ERROR)
            return await self._resolve(replica, asked.timestamp, committed)
        except LogDirFailure as error:
            self._on_log_failure(replica, error)
            return _failed(replica.core.refuse_fetch(-1) or ErrorCode.KAFKA_STORAGE_ERROR)
        except StorageError:
            return _failed(ErrorCode.KAFKA_STORAGE_ERROR)

    async def _resolve(
        self, replica: PartitionReplica, timestamp: int, committed: bool
    ) -> pb.ListOffsetsResult:
        """What a consumer may read: `committed` is read_committed (`fetchOffsetForTimestamp`)."""
        log = replica.log
        end = replica.last_stable_offset() if committed else replica.high_watermark
        epoch = replica.leader_epoch
        if timestamp not in (EARLIEST, EARLIEST_LOCAL) and not replica.core.offsets_available:
            return _failed(ErrorCode.OFFSET_NOT_AVAILABLE)
        if timestamp == LATEST:
            return _found(NONE, end, epoch)
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            offset = log.log_start_offset
            return _found(NONE, offset, log.epochs.cache.epoch_for(offset))
        if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return _found(NONE, NONE, NONE)
        if timestamp == MAX_TIMESTAMP:
            search = log.search.first_with_largest()
        elif timestamp >= 0:
            search = log.search.first_at_or_after(timestamp)
        else:
            return _failed(ErrorCode.UNSUPPORTED_VERSION)
        log_dir = replica.log_dir
        found = await self._carry_out(search, log_dir)
        if replica.log_dir != log_dir:
            # It has moved meanwhile, and the search has passed over segments that were closed.
            return await self._resolve(replica, timestamp, committed)
        if replica.core.refuse_fetch(epoch):
            # The log may have been cut meanwhile, even if it leads again.
            return _failed(replica.core.refuse_fetch(NONE) or ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if found is None or found.offset >= end:
            return _found(NONE, NONE, NONE)
        return _found(*found)

    async def _carry_out(self, search: Search, log_dir: int) -> Found | None:
        """Runs a search; its batches are decoded on a thread."""
        answer: Found | None = None
        while True:
            try:
                question = search.send(answer)
            except StopIteration as stop:
                found: Found | None = stop.value
                return found
            answer = await _decoded(question, self._decoding[log_dir])

    def _epoch_end(self, asked: pb.EpochQuestion) -> pb.EpochAnswer:
        replica, refused = self._replica(asked, asked.current_leader_epoch)
        if replica is None or refused:
            return pb.EpochAnswer(error_code=refused, leader_epoch=NONE, end_offset=NONE)
        epoch, end_offset = replica.log.epochs.end_offset_for(asked.leader_epoch)
        return pb.EpochAnswer(leader_epoch=epoch, end_offset=end_offset)

    def _producers(self, asked: pb.ProducersQuestion) -> pb.ProducersAnswer:
        replica, refused = self._replica(asked, NONE)
        if replica is None or refused:
            return pb.ProducersAnswer(error_code=refused)
        return pb.ProducersAnswer(
            producers=[
                pb.ProducerDescription(
                    producer_id=entry.producer_id,
                    producer_epoch=entry.producer_epoch,
                    last_sequence=entry.last_sequence,
                    last_timestamp=entry.timestamp,
                    coordinator_epoch=entry.coordinator_epoch,
                    current_txn_start_offset=entry.current_txn_first_offset,
                )
                for entry in replica.log.producers.states.entries()
            ]
        )


async def _decoded(question: BatchQuestion, turn: asyncio.Lock) -> Found | None:
    """The question's answer, found on a thread. Raises LogDirFailure."""
    segment = question.segment
    try:
        segment.pin()  # At once: the segment may be deleted while this waits for its turn.
        try:
            async with turn:
                return await asyncio.to_thread(question.answer, segment.fd)
        finally:
            segment.unpin()
    except OSError as error:
        raise LogDirFailure(segment.file, error) from error


def _found(timestamp: int, offset: int, leader_epoch: int) -> pb.ListOffsetsResult:
    return pb.ListOffsetsResult(timestamp=timestamp, offset=offset, leader_epoch=leader_epoch)


def _failed(error_code: int) -> pb.ListOffsetsResult:
    return pb.ListOffsetsResult(
        error_code=error_code, timestamp=NONE, offset=NONE, leader_epoch=NONE
    )
