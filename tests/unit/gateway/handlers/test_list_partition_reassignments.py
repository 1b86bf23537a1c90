import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequestListPartitionReassignmentsTopics,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.ids import NodeId
from tests.unit.gateway.handlers.fakes import Client, FakeBackend
from tests.unit.gateway.handlers.images import (
    OTHER,
    image_of,
    partition,
    topic,
)

MOVING = partition(
    1,
    2,
    replicas=(NodeId(3), NodeId(2)),
    adding_replicas=(NodeId(3),),
    removing_replicas=(NodeId(2),),
)


def backend():
    moving = topic("orders", partitions=(partition(0, 1), MOVING))
    foreign = topic("secret", instance=OTHER, partitions=(partition(0, 1), MOVING))
    return FakeBackend(image_of(moving, topic("clicks"), foreign))


def ask(*topics):
    return ListPartitionReassignmentsRequest(
        topics=[
            ListPartitionReassignmentsRequestListPartitionReassignmentsTopics(name, indexes)
            for name, indexes in topics
        ]
    )


@pytest.mark.parametrize(
    "request_",
    [ListPartitionReassignmentsRequest(), ask(("orders", [0, 1])), ask(("orders", [1]))],
    ids=["all", "both", "one"],
)
async def test_partitions_that_move(request_):
    response = await Client(backend()).call(request_, 0)
    assert (response.error_code, response.error_message) == (0, None)
    [found] = response.topics
    assert found.name == "orders"
    [one] = found.partitions
    assert (one.partition_index, list(one.replicas)) == (1, [3, 2])
    assert (list(one.adding_replicas), list(one.removing_replicas)) == ([3], [2])


@pytest.mark.parametrize(
    "request_",
    [
        ask(("orders", [0])),
        ask(("clicks", [0])),
        ask(("nothing", [0])),
        ask(("secret", [1])),
        ask(),
    ],
    ids=["at rest", "other topic", "unknown", "other instance", "none"],
)
async def test_partitions_without_a_reassignment_are_left_out(request_):
    response = await Client(backend()).call(request_, 0)
    assert (response.error_code, response.topics) == (0, [])


async def test_who_may_not_describe_the_cluster_sees_none():
    made = backend()
    made.deny((AclOperation.DESCRIBE, THE_CLUSTER))
    response = await Client(made).call(ListPartitionReassignmentsRequest(), 0)
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert (response.error_code, response.error_message) == (denied, denied.message)
    assert response.topics == []
