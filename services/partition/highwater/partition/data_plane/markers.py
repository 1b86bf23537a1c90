"""WriteTxnMarkers at the leaders of this node (KIP-98): transactions end, and the answer comes when
the markers are committed.

Sources: Kafka's `KafkaApis.handleWriteTxnMarkersRequest`, `ProducerAppendInfo.appendEndTxnMarker`.
Any error but INVALID_PRODUCER_EPOCH and TRANSACTION_COORDINATOR_FENCED means: try again.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.append import AppendGroup, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import TopicId
from highwater.model.transactions import MarkerTarget, TransactionMarker
from highwater.partition.core.leader_epochs import NO_EPOCH
from highwater.partition.data_plane.node_group import MarkerGroup
from highwater.partition.data_plane.plane import DataPlane

WAIT_S_MAX: Final = 30.0
"""Then what is not committed is answered REQUEST_TIMED_OUT, as after Kafka's request.timeout.ms."""


class MarkerWriter:
    """The `MarkerTarget` of a topic whose records are nobody's on this node but the log's."""

    __slots__ = ("_plane", "_topic_id")

    def __init__(self, plane: DataPlane, topic_id: TopicId) -> None:
        """`plane` has the topic's replicas."""
        self._plane = plane
        self._topic_id = topic_id

    def write_marker(
        self,
        partition: int,
        leader_epoch: int,
        marker: TransactionMarker,
        done: Callable[[int], None],
    ) -> None:
        """See `MarkerTarget`."""
        owner = _OneMarker(done, partial(self._leads, partition, leader_epoch))
        self._plane.append_marker(
            MarkerGroup(self._topic_id, partition, leader_epoch, owner, marker)
        )

    def _leads(self, partition: int, leader_epoch: int) -> bool:
        replica = self._plane.replicas.get((self._topic_id, partition))
        return replica is not None and replica.leading and replica.leader_epoch == leader_epoch


class _OneMarker:
    """Owns the group of one marker."""

    __slots__ = ("_done", "_leads")

    def __init__(self, done: Callable[[int], None], leads: Callable[[], bool]) -> None:
        self._done = done
        self._leads = leads

    def take_result(
        self,
        group: AppendGroup,  # noqa: ARG002 - the port's.
        base_offsets: list[int],  # noqa: ARG002 - the port's.
        failures: Mapping[int, Failure] | None,
    ) -> bool:
        """See `AppendOwner`."""
        code = failures[0].error_code if failures else 0
        if code == ErrorCode.REQUEST_TIMED_OUT and not self._leads():
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._done(code)
        return True


class Markers:
    """Has no state of its own."""

    def __init__(self, plane: DataPlane) -> None:
        """`plane` has the replicas, and the targets of topics that have others."""
        self._plane = plane

    async def write(
        self, request: pb.WriteTxnMarkersRequest, timeout_s: float = WAIT_S_MAX
    ) -> pb.WriteTxnMarkersResponse:
        """Answers in the order of the request, when all is committed or the time is over."""
        places = [(wanted, where) for wanted in request.markers for where in wanted.partitions]
        wait = _Wait(len(places))
        for number, (wanted, where) in enumerate(places):
            self._write(_marker(wanted), where, partial(wait.done, number))
        await wait.ended(min(timeout_s, WAIT_S_MAX))
        return pb.WriteTxnMarkersResponse(error_codes=wait.codes)

    def _write(
        self,
        marker: TransactionMarker,
        where: pb.TxnMarkerPartition,
        done: Callable[[int], None],
    ) -> None:
        topic_id = TopicId(where.topic_id)
        replica = self._plane.replicas.get((topic_id, where.partition))
        if replica is None:
            done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif refused := replica.core.refuse_fetch(NO_EPOCH):
            done(refused)
        elif where.leader_epoch > replica.leader_epoch:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)  # This node has not heard of its successor.
        else:
            target = _target(self._plane, topic_id)
            target.write_marker(where.partition, replica.leader_epoch, marker, done)


def find_target(plane: DataPlane, topic_id: TopicId, partition: int) -> MarkerTarget | None:
    """Who takes the markers of a partition that this node leads; None if it does not."""
    replica = plane.replicas.get((topic_id, partition))
    return _target(plane, topic_id) if replica is not None and replica.leading else None


def _target(plane: DataPlane, topic_id: TopicId) -> MarkerTarget:
    return plane.marker_targets.get(topic_id) or MarkerWriter(plane, topic_id)


class _Wait:
    """The answers of one request."""

    def __init__(self, count: int) -> None:
        self.codes: list[int] = [ErrorCode.REQUEST_TIMED_OUT] * count
        self._left = count
        self._ended = asyncio.Event()
        if not count:
            self._ended.set()

    def done(self, number: int, error_code: int) -> None:
        """One marker is committed, or refused."""
        self.codes[number] = error_code
        self._left -= 1
        if not self._left:
            self._ended.set()

    async def ended(self, timeout_s: float) -> None:
        """Returns when all are done, or the time is over."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._ended.wait()
        except TimeoutError:
            return


def _marker(wanted: pb.TxnMarker) -> TransactionMarker:
    return TransactionMarker(
        producer_id=wanted.producer_id,
        producer_epoch=wanted.producer_epoch,
        committed=wanted.committed,
        coordinator_epoch=wanted.coordinator_epoch,
        transaction_version=wanted.transaction_version,
    )
