"""WriteTxnMarkers at the leaders of this node (KIP-98): transactions end, and the answer comes when
the markers are committed.

Sources: Kafka's `KafkaApis.handleWriteTxnMarkersRequest`, `ProducerAppendInfo.appendEndTxnMarker`.
Any error but INVALID_PRODUCER_EPOCH and TRANSACTION_COORDINATOR_FENCED means: try again.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.append import AppendGroup, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import TopicId
from highwater.model.transactions import AwaitedMarker, MarkerTarget, TransactionMarker
from highwater.partition.core.leader_epochs import NO_EPOCH
from highwater.partition.data_plane.node_group import MarkerGroup
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.rpc.errors import RpcError
from highwater.rpc.status import StatusCode

PRODUCER_EPOCH_MAX: Final = (1 << 15) - 1
"""A batch has two bytes for it, as Kafka's request does, where the message has four."""
WAIT_S_MAX: Final = 30.0
"""Then what is not committed is answered REQUEST_TIMED_OUT, as after Kafka's request.timeout.ms."""


class MarkerWriter:
    """The `MarkerTarget` of a topic whose records are nobody's on this node but the log's."""

    __slots__ = ("_plane", "_topic_id")

    def __init__(self, plane: DataPlane, topic_id: TopicId) -> None:
        """`plane` has the topic's replicas."""
        self._plane = plane
        self._topic_id = topic_id

    def write_markers(
        self, partition: int, leader_epoch: int, markers: Sequence[AwaitedMarker]
    ) -> None:
        """See `MarkerTarget`. Those that commit are one append, because most of its work is the same
        for one and for many.
        """
        leads = partial(self._leads, partition, leader_epoch)
        for some in _appended_together(markers):
            self._plane.append_marker(
                MarkerGroup(
                    self._topic_id,
                    partition,
                    leader_epoch,
                    _Answers([one.done for one in some], leads),
                    [one.marker for one in some],
                )
            )

    def _leads(self, partition: int, leader_epoch: int) -> bool:
        replica = self._plane.replicas.get((self._topic_id, partition))
        return replica is not None and replica.leading and replica.leader_epoch == leader_epoch


def _appended_together(markers: Sequence[AwaitedMarker]) -> Iterator[list[AwaitedMarker]]:
    """See `MarkerGroup`."""
    for commits, some in groupby(markers, key=lambda each: each.marker.committed):
        if commits:
            yield list(some)
        else:
            yield from ([one] for one in some)


class _Answers:
    """Owns a group of markers; `done` has who waits for each."""

    __slots__ = ("_done", "_leads")

    def __init__(self, done: list[Callable[[int], None]], leads: Callable[[], bool]) -> None:
        self._done = done
        self._leads = leads

    def take_result(
        self,
        group: AppendGroup,  # noqa: ARG002 - the port's.
        base_offsets: list[int],  # noqa: ARG002 - the port's.
        failures: Mapping[int, Failure] | None,
    ) -> bool:
        """See `AppendOwner`."""
        for place, done in enumerate(self._done):
            failure = failures.get(place) if failures else None
            code = 0 if failure is None else failure.error_code
            if code == ErrorCode.REQUEST_TIMED_OUT and not self._leads():
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            done(code)
        return True


class Markers:
    """Has no state of its own."""

    def __init__(self, plane: DataPlane) -> None:
        """`plane` has the replicas, and the targets of topics that have others."""
        self._plane = plane

    async def write(
        self, request: pb.WriteTxnMarkersRequest, timeout_s: float = WAIT_S_MAX
    ) -> pb.WriteTxnMarkersResponse:
        """Answers in the order of the request, when all is committed or the time is over.

        Raises RpcError for a marker that no batch can have: a replica that tried would go offline.
        """
        for wanted in request.markers:
            if not -PRODUCER_EPOCH_MAX <= wanted.producer_epoch <= PRODUCER_EPOCH_MAX:
                why = f"a producer epoch of {wanted.producer_epoch}"
                raise RpcError(StatusCode.INVALID_ARGUMENT, why)
        places = [(wanted, where) for wanted in request.markers for where in wanted.partitions]
        wait = _Wait(len(places))
        gathered: dict[tuple[TopicId, int, int], list[AwaitedMarker]] = {}
        for number, (wanted, where) in enumerate(places):
            replica = self._plane.replicas.get((TopicId(where.topic_id), where.partition))
            if replica is None:
                wait.done(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif refused := _refused(replica, where.leader_epoch):
                wait.done(number, refused)
            else:
                place = replica.topic_id, replica.partition, replica.leader_epoch
                awaited = AwaitedMarker(_marker(wanted), partial(wait.done, number))
                gathered.setdefault(place, []).append(awaited)
        for (topic_id, partition, leader_epoch), markers in gathered.items():
            _target(self._plane, topic_id).write_markers(partition, leader_epoch, markers)
        await wait.ended(min(timeout_s, WAIT_S_MAX))
        return pb.WriteTxnMarkersResponse(error_codes=wait.codes)


def _refused(replica: PartitionReplica, leader_epoch: int) -> int:
    """Why it takes no markers, 0 if it does; their sender knows of a leader in that epoch."""
    if refused := replica.core.refuse_fetch(NO_EPOCH):
        return refused
    if leader_epoch > replica.leader_epoch:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER  # This node has not heard of its successor.
    return 0


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
