"""From the sender of markers to replicas of this node and to other nodes."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.model.coordinator_topics import INSTANCE_GROUP_METADATA_TOPIC
from highwater.model.ids import (
    DEFAULT_INSTANCE,
    GROUP_METADATA_TOPIC,
    NO_NODE,
    SYSTEM_INSTANCE,
    InstanceId,
    NodeId,
    TopicId,
)
from highwater.model.transactions import TransactionMarker
from highwater.partition.node import marker_link
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

    def write_markers(self, partition, leader_epoch, markers):
        self.taken.append((partition, leader_epoch, markers))


class Calls:
    """Other nodes."""

    def __init__(self) -> None:
        self.asked: list = []
        self.answer: pb.WriteTxnMarkersResponse | None = None

    async def call(self, node, method, request, *, serialize, deserialize, timeout_s):
        assert deserialize(b"") == pb.WriteTxnMarkersResponse()
        self.asked.append((node, method, pb.WriteTxnMarkersRequest.FromString(serialize(request))))
        return self.answer


class Timers:
    """Time passes when the test says so."""

    def __init__(self) -> None:
        self.due: list = []

    def call_later(self, seconds, callback):
        assert seconds == marker_link.TIMEOUT_S
        self.due.append(callback)
        return SimpleNamespace(cancel=lambda: self.due.remove(callback))

    def over(self):
        due, self.due = self.due, []
        for callback in due:
            callback()


class Fixture:
    def __init__(self) -> None:
        self.target, self.calls, self.timers = Target(), Calls(), Timers()
        self.failures: list = []
        self.told: list = []
        self.link = MarkerLink(
            node_id=lambda: 1,
            find_target=lambda topic_id, partition: (
                self.target if (topic_id, partition) != (TOPIC.topic_id, 1) else None
            ),
            calls=self.calls,
            tasks=TaskOwner(lambda name, error: self.failures.append((name, error))),
            call_later=self.timers.call_later,
        )
        self.link.image_changed(image_of([node_state(1)], [TOPIC]))

    def send(self, node, *partitions):
        found = tuple(
            self.link.find(DEFAULT_INSTANCE, TopicPartition("t", number)) for number in partitions
        )
        self.link.send(NodeId(node), [AddressedMarker(MARKER, found)], self.told.append)


def test_leaders_are_those_of_the_image():
    link = Fixture().link
    assert link.find(DEFAULT_INSTANCE, TopicPartition("t", 2)) == (2, TOPIC.topic_id, 2, 5)
    assert link.find(DEFAULT_INSTANCE, TopicPartition("t", 3)) is None
    assert link.find(DEFAULT_INSTANCE, TopicPartition("t", -1)) is None
    assert link.find(DEFAULT_INSTANCE, TopicPartition("gone", 0)) is None
    assert link.exists(DEFAULT_INSTANCE, TopicPartition("t", 2))
    assert not link.exists(DEFAULT_INSTANCE, TopicPartition("t", 3))
    assert not link.exists(DEFAULT_INSTANCE, TopicPartition("gone", 0))


def test_a_newer_image_counts_at_once():
    link = Fixture().link
    assert link.find(DEFAULT_INSTANCE, TopicPartition("t", 2)).node == 2
    link.image_changed(image_of([node_state(1)], []))
    assert link.find(DEFAULT_INSTANCE, TopicPartition("t", 2)) is None
    assert not link.exists(DEFAULT_INSTANCE, TopicPartition("t", 2))


def test_the_leaders_that_are_remembered_have_a_limit(monkeypatch):
    monkeypatch.setattr(marker_link, "FOUND_MAX", 1)
    link = Fixture().link
    for _ in range(2):
        for number in (0, 1, 2):
            assert link.find(DEFAULT_INSTANCE, TopicPartition("t", number)).partition == number
            assert len(link._found) == 1


def test_topics_are_those_of_the_transactions_instance():
    team = InstanceId("team")
    own = replace(topic_state("t", [(2,)]), instance=team, topic_id=TopicId(b"t" * 16))
    kafkas = replace(topic_state(GROUP_METADATA_TOPIC, [(3,)]), internal=True)
    shared = replace(
        topic_state(INSTANCE_GROUP_METADATA_TOPIC, [(4,)]), instance=SYSTEM_INSTANCE, internal=True
    )
    link = Fixture().link
    link.image_changed(image_of([node_state(1)], [TOPIC, own, kafkas, shared]))
    assert link.find(team, TopicPartition("t", 0))[:2] == (2, own.topic_id)
    assert link.find(InstanceId("other"), TopicPartition("t", 0)) is None
    offsets = TopicPartition(GROUP_METADATA_TOPIC, 0)
    assert link.find(DEFAULT_INSTANCE, offsets)[:2] == (3, kafkas.topic_id)
    assert link.find(team, offsets)[:2] == (4, shared.topic_id)
    assert link.find(team, TopicPartition(INSTANCE_GROUP_METADATA_TOPIC, 0)) is None


def test_before_the_first_image_nothing_counts_as_deleted():
    link = MarkerLink(
        node_id=lambda: 1,
        find_target=lambda *_: None,
        calls=Calls(),
        tasks=None,
        call_later=Timers().call_later,
    )
    assert link.find(DEFAULT_INSTANCE, TopicPartition("t", 0)).node == NO_NODE
    assert link.exists(DEFAULT_INSTANCE, TopicPartition("t", 0))


def test_markers_of_this_nodes_partitions_stay_in_the_process():
    f = Fixture()
    f.send(1, 0, 1, 2)
    [(*first, [of_first]), (*third, [of_third])] = f.target.taken
    assert (first, of_first.marker) == ([0, 5], MARKER)
    assert (third, of_third.marker) == ([2, 5], MARKER)
    of_third.done(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert f.told == []
    of_first.done(0)
    assert f.told == [[0, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS]]


def test_markers_of_one_partition_go_together_and_are_answered_in_the_order_of_the_request():
    f = Fixture()
    other = MARKER._replace(producer_id=8)
    places = [f.link.find(DEFAULT_INSTANCE, TopicPartition("t", number)) for number in (0, 2)]
    f.link.send(
        NodeId(1),
        [AddressedMarker(MARKER, tuple(places)), AddressedMarker(other, (places[0],))],
        f.told.append,
    )
    [(*_, [first, second]), (*_, [third])] = f.target.taken
    assert [each.marker.producer_id for each in (first, second, third)] == [7, 8, 7]
    for code, each in enumerate((first, second, third)):
        each.done(code)
    assert f.told == [[0, 2, 1]]


def test_a_partition_of_this_node_that_does_not_commit_holds_up_the_others_for_a_limited_time():
    """Its ISR has become too small, say; all later markers of this node wait for the answer."""
    f = Fixture()
    f.send(1, 0, 2)
    [(*_, [of_first]), (*_, [of_third])] = f.target.taken
    of_first.done(0)
    assert f.told == []
    f.timers.over()
    assert f.told == [[0, ErrorCode.REQUEST_TIMED_OUT]]
    of_third.done(0)
    assert len(f.told) == 1
    f.send(1, 0)
    assert len(f.timers.due) == 1
    f.target.taken[-1][2][0].done(0)
    assert (f.told[1:], f.timers.due) == ([[0]], [])


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
