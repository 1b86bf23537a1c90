"""From the sender of markers to replicas of this node and to other nodes."""

import asyncio

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import NO_NODE, NodeId
from highwater.model.transactions import TransactionMarker
from highwater.partition.node.marker_link import MarkerLink
from highwater.partition.transactions.core.image import TopicPartition
from highwater.partition.transactions.marker_sender import AddressedMarker
from highwater.runtime.tasks import TaskOwner
from tests.support.controller_images import image_of, node_state, topic_state
from tests.unit.partition.coordinator.waiting import until

TOPIC = topic_state("t", [(1,), (1, 2), (2,)])
MARKER = TransactionMarker(
    producer_id=7,
    producer_epoch=3,
    committed=True,
    coordinator_epoch=9,
    transaction_version=2,
)


class Target:
    """A replica that keeps markers."""

    def __init__(self) -> None:
        self.taken: list = []

    def write_marker(self, partition, leader_epoch, marker, done):
        self.taken.append((partition, leader_epoch, marker, done))


class Calls:
    """Other nodes."""

    def __init__(self) -> None:
        self.asked: list = []
        self.answer: pb.WriteTxnMarkersResponse | None = None

    async def call(self, node, method, request, *, serialize, deserialize, timeout_s):
        assert deserialize(b"") == pb.WriteTxnMarkersResponse()
        self.asked.append((node, method, pb.WriteTxnMarkersRequest.FromString(serialize(request))))
        return self.answer


class Fixture:
    def __init__(self) -> None:
        self.target, self.calls = Target(), Calls()
        self.failures: list = []
        self.told: list = []
        self.link = MarkerLink(
            node_id=lambda: 1,
            find_target=lambda topic_id, partition: (
                self.target if (topic_id, partition) != (TOPIC.topic_id, 1) else None
            ),
            calls=self.calls,
            tasks=TaskOwner(lambda name, error: self.failures.append((name, error))),
        )
        self.link.image_changed(image_of([node_state(1)], [TOPIC]))

    def send(self, node, *partitions):
        found = tuple(self.link.find(TopicPartition("t", number)) for number in partitions)
        self.link.send(NodeId(node), [AddressedMarker(MARKER, found)], self.told.append)


def test_leaders_are_those_of_the_image():
    link = Fixture().link
    assert link.find(TopicPartition("t", 2)) == (2, TOPIC.topic_id, 2, 5)
    assert link.find(TopicPartition("t", 3)) is None
    assert link.find(TopicPartition("t", -1)) is None
    assert link.find(TopicPartition("gone", 0)) is None


def test_before_the_first_image_nothing_counts_as_deleted():
    link = MarkerLink(node_id=lambda: 1, find_target=lambda *_: None, calls=Calls(), tasks=None)
    assert link.find(TopicPartition("t", 0)).node == NO_NODE


def test_markers_of_this_nodes_partitions_stay_in_the_process():
    f = Fixture()
    f.send(1, 0, 1, 2)
    assert [taken[:3] for taken in f.target.taken] == [(0, 5, MARKER), (2, 5, MARKER)]
    f.target.taken[1][3](ErrorCode.NOT_ENOUGH_REPLICAS)
    assert f.told == []
    f.target.taken[0][3](0)
    assert f.told == [[0, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS]]


async def test_markers_of_other_nodes_are_sent():
    f = Fixture()
    f.calls.answer = pb.WriteTxnMarkersResponse(error_codes=[0, 6])
    f.send(2, 1, 2)
    await until(lambda: bool(f.told))
    assert f.told == [[0, 6]]
    ((node, method, request),) = f.calls.asked
    assert (node, method) == (2, "WriteTxnMarkers")
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.committed) == (7, 3, True)
    assert (marker.coordinator_epoch, marker.transaction_version) == (9, 2)
    assert [(p.topic_id, p.partition, p.leader_epoch) for p in marker.partitions] == [
        (TOPIC.topic_id, 1, 5),
        (TOPIC.topic_id, 2, 5),
    ]


async def test_a_node_that_does_not_answer():
    f = Fixture()
    f.send(2, 2)
    await until(lambda: bool(f.told))
    assert f.told == [None]


async def test_the_sender_hears_of_a_call_that_is_cancelled():
    f = Fixture()
    never = asyncio.Event()
    f.calls.call = lambda *_args, **_options: never.wait()
    f.send(2, 2)
    await asyncio.sleep(0)
    assert await f.link._tasks.close(timeout_s=5)
    assert f.told == [None]
    assert f.failures == []
