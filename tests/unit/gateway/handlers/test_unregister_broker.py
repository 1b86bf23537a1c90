import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.unregister_broker import UnregisterBrokerRequest
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.errors import UnreachableError
from highwater.model.ids import InstanceId
from tests.unit.gateway.handlers.fakes import (
    Client,
    DenySome,
    FakeBackend,
)


async def test_the_node_is_gone_once_it_is_answered():
    backend = FakeBackend()
    response = await Client(backend).call(UnregisterBrokerRequest(3), 0)
    assert response.error_code == 0
    [asked] = backend.controller.requests
    assert asked.node_id == 3
    assert sorted(backend.image.nodes) == [1, 2]


async def test_brokers_are_not_an_instances():
    backend = FakeBackend()
    shop = InstanceId("shop")
    response = await Client(backend, instance=shop).call(UnregisterBrokerRequest(3), 0)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert backend.controller.requests == []


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (ErrorCode.BROKER_ID_NOT_REGISTERED, "there is no node with id 3"),
        (ErrorCode.INVALID_REQUEST, "node 3 is alive; stop it first"),
        (ErrorCode.INVALID_REQUEST, "node 3 holds 2 replicas; decommission it first"),
    ],
)
async def test_the_controllers_refusal_in_its_words(code, why):
    backend = FakeBackend()
    backend.controller.errors[3] = (code, why)
    response = await Client(backend).call(UnregisterBrokerRequest(3), 0)
    assert (response.error_code, response.error_message) == (code, why)
    assert sorted(backend.image.nodes) == [1, 2, 3]


async def test_without_controller():
    backend = FakeBackend()
    backend.controller.raises = UnreachableError("no controller")
    response = await Client(backend).call(UnregisterBrokerRequest(3), 0)
    assert response.error_code == ErrorCode.NOT_CONTROLLER


async def test_it_needs_alter_on_the_cluster():
    backend = FakeBackend()
    backend.authorizer = DenySome((AclOperation.ALTER, THE_CLUSTER))
    response = await Client(backend).call(UnregisterBrokerRequest(3), 0)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert backend.controller.requests == []
