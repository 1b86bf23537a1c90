import pytest

from highwater.gateway.handling.apis import APIS
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
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

VERSIONS = range(3)


def ask(*topics, kind=0):
    return ElectLeadersRequest(
        kind, [ElectLeadersRequestTopicPartitions(name, list(some)) for name, some in topics], 500
    )


def codes(response):
    return {
        (result.topic, one.partition_id): one.error_code
        for result in response.replica_election_results
        for one in result.partition_result
    }


def backend_with(*topics):
    return FakeBackend(image_of(*topics or (topic("orders", [1, 2]), topic("clicks", [1]))))


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_partition_has_its_result(version):
    backend = backend_with()
    backend.controller.errors[1] = (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "it is away")
    request = ask(("orders", (0, 1, 7)), ("clicks", (0,)), ("nothing", (0,)))
    response = await Client(backend).call(request, version)
    assert response.error_code == 0
    assert codes(response) == {
        ("orders", 0): 0,
        ("orders", 1): 80,
        ("orders", 7): 3,
        ("clicks", 0): 0,
        ("nothing", 0): 3,
    }
    orders = response.replica_election_results[0].partition_result
    assert [one.error_message for one in orders[:2]] == [None, "it is away"]
    assert orders[2].error_message
    [asked] = backend.controller.requests
    assert (asked.instance, asked.timeout_ms, asked.all_partitions) == ("default", 500, False)
    assert [(t.topic_id, list(t.partitions)) for t in asked.topics] == [
        (topic_id("orders"), [0, 1]),
        (topic_id("clicks"), [0]),
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_null_is_all_partitions(version):
    backend = backend_with()
    response = await Client(backend).call(ElectLeadersRequest(0, None, 500), version)
    assert codes(response) == {("orders", 0): 0, ("orders", 1): 0, ("clicks", 0): 0}
    assert backend.controller.requests[0].all_partitions


@pytest.mark.parametrize("version", VERSIONS[1:])
async def test_kinds_of_elections(version):
    backend = backend_with()
    await Client(backend).call(ask(("orders", (0,)), kind=0), version)
    await Client(backend).call(ask(("orders", (0,)), kind=1), version)
    assert [request.type for request in backend.controller.requests] == [1, 2]
    response = await Client(backend).call(ask(("orders", (0,)), kind=2), version)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert codes(response) == {("orders", 0): ErrorCode.INVALID_REQUEST}
    assert len(backend.controller.requests) == 2


async def test_another_instance_s_topics_are_unknown():
    backend = backend_with()
    response = await Client(backend, instance=OTHER).call(ask(("orders", (0,))), 2)
    assert codes(response) == {("orders", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert backend.controller.requests == []


async def test_duplicate_partitions_are_asked_for_once():
    backend = backend_with()
    response = await Client(backend).call(ask(("orders", (1, 1))), 2)
    assert codes(response) == {("orders", 1): 0}
    assert list(backend.controller.requests[0].topics[0].partitions) == [1]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_controller_that_cannot_be_reached(version):
    backend = backend_with()
    backend.controller.raises = UnreachableError("nobody")
    response = await Client(backend).call(ask(("orders", (0, 1))), version)
    expected = 0 if version == 0 else ErrorCode.NOT_CONTROLLER
    assert response.error_code == expected, "v0 has no code for the whole"
    assert set(codes(response).values()) == {ErrorCode.NOT_CONTROLLER}


def test_the_api_table_row():
    row = APIS[ApiKey.ELECT_LEADERS]
    assert (row.min_version, row.max_version) == (0, 2)


@pytest.mark.parametrize("version", VERSIONS)
async def test_who_may_not_alter_the_cluster_elects_nobody(version):
    backend = backend_with()
    backend.deny((AclOperation.ALTER, THE_CLUSTER))
    response = await Client(backend).call(ask(("orders", (0,))), version)
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert response.error_code == (denied if version >= 1 else 0)
    assert codes(response) == {("orders", 0): denied}
    assert backend.controller.requests == []
