"""The way of markers to the leaders of partitions: in process, or by a call between nodes."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterImage, TopicState
from highwater.model.ids import (
    INTERNAL_TOPICS,
    NO_NODE,
    NO_TOPIC_ID,
    InstanceId,
    NodeId,
    TopicId,
)
from highwater.model.time import CallLater, Timer
from highwater.model.transactions import AwaitedMarker, MarkerTarget
from highwater.partition.node.node_calls import NodeCalls
from highwater.partition.transactions.core.image import TopicPartition
from highwater.partition.transactions.marker_sender import AddressedMarker, Destination
from highwater.runtime.tasks import TaskOwner

TIMEOUT_S: Final = 30.0
"""As for Kafka's brokers among one another (request.timeout.ms). A marker waits for followers, also for this
node's partitions, and all that is sent to that node later waits for the answer."""

FOUND_MAX: Final = 10_000
"""Partitions whose leaders are remembered, some 200 bytes each."""

FindTarget = Callable[[TopicId, int], MarkerTarget | None]
"""Who takes the markers of a partition that this node leads; None if it does not."""

Done = Callable[[Sequence[int] | None], None]


class MarkerLink:
    """A `MarkerPort` on the node's own view of the cluster; used on its loop."""

    def __init__(
        self,
        *,
        node_id: Callable[[], int],
        find_target: FindTarget,
        calls: NodeCalls,
        tasks: TaskOwner,
        call_later: CallLater,
    ) -> None:
        """`node_id` is this node's, which it knows once it is registered."""
        self._node_id = node_id
        self._call_later = call_later
        self._find_target = find_target
        self._calls = calls
        self._tasks = tasks
        self._image: ClusterImage | None = None
        self._found: dict[tuple[InstanceId, TopicPartition], Destination] = {}
        """Of the image, what was asked for: every transaction asks twice for each of its partitions."""

    def image_changed(self, image: ClusterImage) -> None:
        """Take the leaders."""
        self._image = image
        self._found.clear()

    def find(self, instance: InstanceId, partition: TopicPartition) -> Destination | None:
        """See `MarkerPort`. The image is never older than the one in which the partition joined a
        transaction: not at the coordinator that let it join, which asks here first, and not at a
        later one, whose leadership is younger.
        """
        found = self._found.get((instance, partition))
        if found is not None:
            return found
        if self._image is None:
            return Destination(NO_NODE, NO_TOPIC_ID, partition.partition, -1)
        topic = _topic_of(self._image, instance, partition)
        if topic is None:
            return None
        state = topic.partitions[partition.partition]
        found = Destination(state.leader, topic.topic_id, state.partition, state.leader_epoch)
        if len(self._found) >= FOUND_MAX:
            self._found.clear()
        self._found[instance, partition] = found
        return found

    def exists(self, instance: InstanceId, partition: TopicPartition) -> bool:
        """See `MarkerPort`."""
        return self.find(instance, partition) is not None

    def send(self, node: NodeId, markers: Sequence[AddressedMarker], done: Done) -> None:
        """See `MarkerPort`."""
        if node == self._node_id():
            self._write(markers, done)
        else:
            self._tasks.start(self._call(node, markers, done), name=f"txn-markers-{node}")

    def _write(self, markers: Sequence[AddressedMarker], done: Done) -> None:
        """Into partitions that this node leads, all of a partition at once."""
        wait = _Wait(sum(len(partitions) for _, partitions in markers), done)
        gathered: dict[Destination, list[AwaitedMarker]] = {}
        number = 0
        for marker, partitions in markers:
            for to in partitions:
                awaited = AwaitedMarker(marker, partial(wait.answered, number))
                gathered.setdefault(to, []).append(awaited)
                number += 1
        for to, all_ in gathered.items():
            target = self._find_target(to.topic_id, to.partition)
            if target is not None:
                target.write_markers(to.partition, to.leader_epoch, all_)
                continue
            for each in all_:
                each.done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        wait.limit(self._call_later)

    async def _call(self, node: NodeId, markers: Sequence[AddressedMarker], done: Done) -> None:
        codes: Sequence[int] | None = None
        try:
            answer = await self._calls.call(
                node,
                "WriteTxnMarkers",
                to_request(markers),
                serialize=pb.WriteTxnMarkersRequest.SerializeToString,
                deserialize=pb.WriteTxnMarkersResponse.FromString,
                timeout_s=TIMEOUT_S,
            )
            if answer is not None:
                codes = list(answer.error_codes)
        finally:
            # Also when the node stops: the sender then finds that its shards are gone.
            done(codes)


class _Wait:
    """For the answers to the markers of one call to this node. What is not committed when its time is over is
    REQUEST_TIMED_OUT, as on other nodes (`data_plane.markers`): an ISR that has become too small may stay
    so for hours.
    """

    __slots__ = ("_codes", "_done", "_left", "_timer")

    def __init__(self, count: int, done: Done) -> None:
        self._codes: list[int] = [ErrorCode.REQUEST_TIMED_OUT] * count
        self._left = count
        self._done = done
        self._timer: Timer | None = None

    def answered(self, number: int, code: int) -> None:
        """One marker is committed, or refused; nothing more when the time is over."""
        if not self._left:
            return
        self._codes[number] = code
        self._left -= 1
        if not self._left:
            if self._timer is not None:
                self._timer.cancel()
            self._done(self._codes)

    def limit(self, call_later: CallLater) -> None:
        """Begins the time, if something is left to wait for."""
        if self._left:
            self._timer = call_later(TIMEOUT_S, self._late)

    def _late(self) -> None:
        self._left = 0
        self._done(self._codes)


def _topic_of(
    image: ClusterImage, instance: InstanceId, partition: TopicPartition
) -> TopicState | None:
    """The topic that has the partition; None if there is no such partition."""
    name, number = partition
    if name in INTERNAL_TOPICS:
        topic = image.coordinator_topic(name, instance)
    else:
        topic = image.topic(name, instance)
    return topic if topic is not None and 0 <= number < len(topic.partitions) else None


def to_request(markers: Sequence[AddressedMarker]) -> pb.WriteTxnMarkersRequest:
    """The markers of one node as a message."""
    return pb.WriteTxnMarkersRequest(
        markers=[
            pb.TxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                committed=marker.committed,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
                partitions=[
                    pb.TxnMarkerPartition(
                        topic_id=to.topic_id, partition=to.partition, leader_epoch=to.leader_epoch
                    )
                    for to in partitions
                ],
            )
            for marker, partitions in markers
        ]
    )
