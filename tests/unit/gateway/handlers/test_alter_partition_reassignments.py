import pytest

from highwater.gateway.handling.apis import APIS
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestReassignablePartition,
    AlterPartitionReassignmentsRequestReassignableTopic,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.errors import UnreachableError
from tests.unit.gateway.handlers.fakes import Client, FakeBackend
from tests.unit.gateway.handlers.images import (
    OTHER,
    image_of,
    topic,
    topic_id,
)

VERSIONS = range(2)


def ask(*topics, **fields):
    return AlterPartitionReassignmentsRequest(
        topics=[
            AlterPartitionReassignmentsRequestReassignableTopic(
                name,
                [
                    AlterPartitionReassignmentsRequestReassignablePartition(number, replicas)
                    for number, replicas in partitions.items()
                ],
            )
            for name, partitions in topics
        ],
        timeout_ms=500,
        **fields,
    )


def codes(response):
    return {
        (one.name, partition.partition_index): partition.error_code
        for one in response.responses
        for partition in one.partitions
    }


def backend_with():
    return FakeBackend(image_of(topic("orders", [1, 2]), topic("clicks", [1])))


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_partition_has_its_result(version):
    backend = backend_with()
    backend.controller.errors[1] = (ErrorCode.INVALID_REPLICA_ASSIGNMENT, "not so")
    request = ask(("orders", {0: [3, 1], 1: [], 9: [1]}), ("clicks", {0: None}), ("no", {0: [1]}))
    response = await Client(backend).call(request, version)
    assert (response.error_code, response.error_message) == (0, None)
    assert codes(response) == {
        ("orders", 0): 0,
        ("orders", 1): 39,
        ("orders", 9): 3,
        ("clicks", 0): 0,
        ("no", 0): 3,
    }
    orders = response.responses[0].partitions
    assert [one.error_message for one in orders[:2]] == [None, "not so"]
    assert orders[2].error_message
    [asked] = backend.controller.requests
    assert (asked.instance, asked.timeout_ms) == ("default", 500)
    assert [
        (one.topic_id, one.partition, list(one.replicas), one.cancel) for one in asked.reassignments
    ] == [
        (topic_id("orders"), 0, [3, 1], False),
        (topic_id("orders"), 1, [], False),
        (topic_id("clicks"), 0, [], True),
    ]


@pytest.mark.parametrize("allowed", [True, False])
async def test_the_replication_factor_may_be_fixed(allowed):
    backend = backend_with()
    request = ask(("orders", {0: [3, 1]}), allow_replication_factor_change=allowed)
    response = await Client(backend).call(request, 1)
    assert response.allow_replication_factor_change is allowed
    assert backend.controller.requests[0].allow_replication_factor_change is allowed


async def test_version_0_lacks_the_field():
    backend = backend_with()
    await Client(backend).call(ask(("orders", {0: [3, 1]})), 0)
    assert backend.controller.requests[0].allow_replication_factor_change


async def test_another_instance_moves_nothing():
    backend = backend_with()
    response = await Client(backend, instance=OTHER).call(ask(("orders", {0: [3]})), 1)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert backend.controller.requests == []


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_controller_that_cannot_be_reached(version):
    backend = backend_with()
    backend.controller.raises = UnreachableError("nobody")
    response = await Client(backend).call(ask(("orders", {0: [3], 1: None})), version)
    assert response.error_code == ErrorCode.NOT_CONTROLLER
    assert set(codes(response).values()) == {ErrorCode.NOT_CONTROLLER}


def test_the_api_table_row():
    row = APIS[ApiKey.ALTER_PARTITION_REASSIGNMENTS]
    assert (row.min_version, row.max_version) == (0, 1)


@pytest.mark.parametrize("version", VERSIONS)
async def test_who_may_not_alter_the_cluster_moves_nothing(version):
    backend = backend_with()
    backend.deny((AclOperation.ALTER, THE_CLUSTER))
    response = await Client(backend).call(ask(("orders", {0: [2]})), version)
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert (response.error_code, codes(response)) == (denied, {("orders", 0): denied})
    assert backend.controller.requests == []
