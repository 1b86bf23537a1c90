"""From verifications to this node's coordinator and to other nodes'."""

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import NO_NODE, TRANSACTION_STATE_TOPIC, NodeId
from highwater.model.partitioning import coordinator_partition
from highwater.partition.node.verifier_link import VerifierLink
from highwater.runtime.tasks import TaskOwner
from tests.support.controller_images import image_of, node_state, topic_state
from tests.unit.partition.coordinator.waiting import until


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
        self.coordinator = object()
        self.failures: list = []
        self.link = VerifierLink(
            node_id=lambda: 1,
            coordinator=lambda: self.coordinator,
            calls=self.calls,
            tasks=TaskOwner(lambda name, error: self.failures.append((name, error))),
        )

    def send(self, node):
        self.link.send(NodeId(node), b"body", lambda code, body: self.told.append((code, body)))


@pytest.fixture
def f():
    return Fixture()


def test_the_coordinator_is_the_leader_of_the_ids_partition(f):
    assert f.link.find("payments") == NO_NODE, "there is no image"
    f.link.image_changed(image_of([node_state(1)], []))
    assert f.link.find("payments") == NO_NODE, "there is no topic"
    state = topic_state(TRANSACTION_STATE_TOPIC, [(1,), (2,), (3,)])
    f.link.image_changed(image_of([node_state(1)], [state]))
    for name in ("payments", "orders", "x"):
        assert f.link.find(name) == coordinator_partition(name, 3) + 1


def test_this_node_is_asked_in_the_process(f):
    assert f.link.here(NodeId(1)) is f.coordinator
    assert f.link.here(NodeId(2)) is None


async def test_another_node_is_called(f):
    f.calls.answer = pb.CoordinatorReply(error_code=0, body=b"answer")
    f.send(2)
    await until(lambda: bool(f.told))
    assert f.told == [(0, b"answer")]
    ((node, method, call),) = f.calls.asked
    assert (node, method, call.api_key) == (2, "CoordinateOne", ApiKey.ADD_PARTITIONS_TO_TXN)
    assert call.api_version == 5
    assert (call.coordinator_partition, call.body) == (-1, b"body")


async def test_a_node_that_does_not_answer(f):
    f.send(2)
    await until(lambda: bool(f.told))
    assert f.told == [(ErrorCode.NETWORK_EXCEPTION, b"")]
    assert f.failures == []
