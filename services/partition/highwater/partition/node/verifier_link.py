"""The way of verifications to transaction coordinators: in process, or by a call between nodes."""

from collections.abc import Callable
from typing import Final

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterImage, TopicState
from highwater.model.coordinator_topics import coordinator_place
from highwater.model.ids import NO_NODE, TRANSACTION_STATE_TOPIC, InstanceId, NodeId
from highwater.partition.node.node_calls import NodeCalls
from highwater.partition.transactions.core.image import TransactionKey
from highwater.partition.transactions.partition_verifier import VERSION, LocalCoordinator, Place
from highwater.runtime.tasks import TaskOwner

TIMEOUT_S: Final = 5.0
"""Far above what a commit takes. Kafka's is request.timeout.ms, 30 s; but here the next request to that
node waits for this one, and producers send again."""

EACH_ITS_OWN: Final = -1
"""As a call's partition: each transactional id has its own."""


class VerifierLink:
    """A `CoordinatorFinder` on the node's own view of the cluster; used on its loop."""

    def __init__(
        self,
        *,
        node_id: Callable[[], int],
        coordinator: Callable[[InstanceId], LocalCoordinator],
        calls: NodeCalls,
        tasks: TaskOwner,
    ) -> None:
        """`node_id` is this node's, which it knows once it is registered; `coordinator` finds this
        node's for an instance, which is made later.
        """
        self._node_id = node_id
        self._coordinator = coordinator
        self._calls = calls
        self._tasks = tasks
        self._image: ClusterImage | None = None
        self._topics: dict[InstanceId, TopicState | None] = {}
        """Of the image, those that have the transactions of the instances that have asked."""

    def image_changed(self, image: ClusterImage) -> None:
        """Take the leaders."""
        self._image = image
        self._topics.clear()

    def find(self, key: TransactionKey) -> NodeId:
        """See `CoordinatorFinder`."""
        topic = self._topics.get(key.instance)
        if topic is None:
            if self._image is None:
                return NO_NODE
            topic = self._image.coordinator_topic(TRANSACTION_STATE_TOPIC, key.instance)
            self._topics[key.instance] = topic
        if topic is None or not topic.partitions:
            return NO_NODE
        return topic.partitions[coordinator_place(*key, len(topic.partitions))].leader

    def here(self, place: Place) -> LocalCoordinator | None:
        """See `CoordinatorFinder`."""
        return self._coordinator(place.instance) if place.node == self._node_id() else None

    def send(self, place: Place, body: bytes, done: Callable[[int, bytes], None]) -> None:
        """See `CoordinatorFinder`."""
        self._tasks.start(self._call(place, body, done), name=f"txn-verifications-{place.node}")

    async def _call(self, place: Place, body: bytes, done: Callable[[int, bytes], None]) -> None:
        error_code: int = ErrorCode.NETWORK_EXCEPTION
        found = b""
        try:
            answer = await self._calls.call(
                place.node,
                "CoordinateOne",
                pb.CoordinatorCall(
                    api_key=ApiKey.ADD_PARTITIONS_TO_TXN,
                    api_version=VERSION,
                    instance=place.instance,
                    body=body,
                    coordinator_partition=EACH_ITS_OWN,
                    deadline_ms=int(TIMEOUT_S * 1000),
                ),
                serialize=pb.CoordinatorCall.SerializeToString,
                deserialize=pb.CoordinatorReply.FromString,
                timeout_s=TIMEOUT_S,
            )
            if answer is not None:
                error_code, found = answer.error_code, answer.body
        finally:
            # Also when the node stops: its groups then get an answer.
            done(error_code, found)
