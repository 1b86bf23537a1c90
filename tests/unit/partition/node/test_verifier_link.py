"""From verifications to this node's coordinator and to other nodes'."""

from dataclasses import replace

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.model.coordinator_topics import (
    INSTANCE_TRANSACTION_STATE_TOPIC,
    coordinator_place,
)
from highwater.model.ids import (
    DEFAULT_INSTANCE,
    NO_NODE,
    SYSTEM_INSTANCE,
    TRANSACTION_STATE_TOPIC,
    InstanceId,
    NodeId,
)
from highwater.model.partitioning import coordinator_partition
from highwater.partition.node.verifier_link import VerifierLink
from highwater.partition.transactions.core.image import TransactionKey
from highwater.partition.transactions.partition_verifier import Place
from highwater.runtime.tasks import TaskOwner
from tests.support.controller_images import image_of, node_state, topic_state
from tests.unit.partition.coordinator.waiting import until

TEAM = InstanceId("team")


class Calls:
    """Other nodes."""

    def __init__(self) -> None:
        self.asked: list = []
        self.answer: pb.CoordinatorReply | None = None

    async def call(self, node, method, request, *, serialize, deserialize, timeout_s):
        assert deserialize(b"") == pb.CoordinatorReply()
        assert timeout_s < 30
        self.asked.append((node, method, pb.CoordinatorCall.FromString(serialize(request))))
        return self.answer


class Fixture:
    def __init__(self) -> None:
        self.calls, self.told = Calls(), []
        self.coordinators = {DEFAULT_INSTANCE: object(), TEAM: object()}
        self.failures: list = []
        self.link = VerifierLink(
            node_id=lambda: 1,
            coordinator=self.coordinators.__getitem__,
            calls=self.calls,
            tasks=TaskOwner(lambda name, error: self.failures.append((name, error))),
        )

    def send(self, node, instance=DEFAULT_INSTANCE):
        self.link.send(
            Place(NodeId(node), instance),
            b"body",
            lambda code, body: self.told.append((code, body)),
        )


@pytest.fixture
def f():
    return Fixture()


def test_the_coordinator_is_the_leader_of_the_ids_partition(f):
    payments = TransactionKey(DEFAULT_INSTANCE, "payments")
    assert f.link.find(payments) == NO_NODE, "there is no image"
    f.link.image_changed(image_of([node_state(1)], []))
    assert f.link.find(payments) == NO_NODE, "there is no topic"
    state = topic_state(TRANSACTION_STATE_TOPIC, [(1,), (2,), (3,)])
    f.link.image_changed(image_of([node_state(1)], [state]))
    for name in ("payments", "orders", "x"):
        assert f.link.find(TransactionKey(DEFAULT_INSTANCE, name)) == (
            coordinator_partition(name, 3) + 1
        )


def test_other_instances_share_another_topic(f):
    state = topic_state(TRANSACTION_STATE_TOPIC, [(1,), (2,), (3,)])
    shared = replace(
        topic_state(INSTANCE_TRANSACTION_STATE_TOPIC, [(4,), (5,)]), instance=SYSTEM_INSTANCE
    )
    f.link.image_changed(image_of([node_state(1)], [state]))
    assert f.link.find(TransactionKey(TEAM, "payments")) == NO_NODE
    f.link.image_changed(image_of([node_state(1)], [state, shared]))
    for name in ("payments", "orders", "x"):
        assert f.link.find(TransactionKey(TEAM, name)) == coordinator_place(TEAM, name, 2) + 4


def test_this_node_is_asked_in_the_process(f):
    for instance in (DEFAULT_INSTANCE, TEAM):
        assert f.link.here(Place(NodeId(1), instance)) is f.coordinators[instance]
        assert f.link.here(Place(NodeId(2), instance)) is None


async def test_another_node_is_called(f):
    f.calls.answer = pb.CoordinatorReply(error_code=0, body=b"answer")
    f.send(2, TEAM)
    await until(lambda: bool(f.told))
    assert f.told == [(0, b"answer")]
    ((node, method, call),) = f.calls.asked
    assert (node, method, call.api_key) == (2, "CoordinateOne", ApiKey.ADD_PARTITIONS_TO_TXN)
    assert (call.api_version, call.instance) == (5, TEAM)
    assert (call.coordinator_partition, call.body) == (-1, b"body")


async def test_a_node_that_does_not_answer(f):
    f.send(2)
    await until(lambda: bool(f.told))
    assert f.told == [(ErrorCode.NETWORK_EXCEPTION, b"")]
    assert f.failures == []
