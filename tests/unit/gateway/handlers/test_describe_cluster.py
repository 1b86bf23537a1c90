import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_cluster import DescribeClusterRequest
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from tests.unit.gateway.handlers.fakes import Client, FakeBackend
from tests.unit.gateway.handlers.images import (
    image_of,
    node,
    with_listener,
)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_brokers_controller_and_id(version):
    backend = FakeBackend(image_of(nodes=[node(1, fenced=True), node(2)]))
    response = await Client(backend).call(DescribeClusterRequest(), version)
    assert (response.error_code, response.error_message) == (0, None)
    assert (response.cluster_id, response.controller_id) == ("cluster-of-tests", 2)
    assert [(b.broker_id, b.host, b.port, b.rack) for b in response.brokers] == [
        (2, "10.1.1.1", 9094, "rack-2")
    ], "a fenced one is not told"
    assert response.cluster_authorized_operations == -(2**31)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_authorized_operations_when_asked_for(version):
    response = await Client(FakeBackend()).call(DescribeClusterRequest(True), version)
    assert response.cluster_authorized_operations == 8096


async def test_fenced_brokers_when_asked_for():
    backend = FakeBackend(image_of(nodes=[node(1, fenced=True), node(2)]))
    request = DescribeClusterRequest(include_fenced_brokers=True)
    response = await Client(backend).call(request, 2)
    assert response.controller_id == 2
    assert [(b.broker_id, b.is_fenced) for b in response.brokers] == [(1, True), (2, False)]


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
async def test_other_endpoints_than_brokers(endpoint_type, code):
    request = DescribeClusterRequest(endpoint_type=endpoint_type)
    response = await Client(FakeBackend()).call(request, 1)
    assert response.error_code == code
    assert response.error_message == code.message
    assert response.brokers == []


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_the_addresses_are_those_of_the_clients_listener(version):
    nodes = [node(1, fenced=True), node(2)]
    backend = FakeBackend(with_listener(image_of(nodes=nodes), "internal", "gw-1", 29092))
    for listener, told in (("internal", [(2, "gw-1", 29094)]), ("no-such", [])):
        response = await Client(backend, listener=listener).call(DescribeClusterRequest(), version)
        assert [(b.broker_id, b.host, b.port) for b in response.brokers] == told
        assert response.controller_id == (2 if told else -1)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_authorized_operations_are_those_of_the_authorizer(version):
    backend = FakeBackend()
    backend.deny((AclOperation.CREATE, THE_CLUSTER), (AclOperation.ALTER, THE_CLUSTER))
    response = await Client(backend).call(DescribeClusterRequest(True), version)
    assert response.cluster_authorized_operations == 0b1_1111_0000_0000


async def test_without_describe_there_are_brokers_but_no_operations():
    backend = FakeBackend()
    authorizer = backend.deny((AclOperation.DESCRIBE, THE_CLUSTER))
    response = await Client(backend).call(DescribeClusterRequest(True), 1)
    assert (response.error_code, len(response.brokers)) == (0, 3)
    assert response.cluster_authorized_operations == 0
    assert len(authorizer.asked) == 1
