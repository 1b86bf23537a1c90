import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.create_acls import (
    CreateAclsRequest,
    CreateAclsRequestAclCreation,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.acls import Acl
from highwater.model.authorization import THE_CLUSTER
from tests.unit.gateway.handlers.fakes import (
    Client,
    DenySome,
    FakeBackend,
)
from tests.unit.gateway.handlers.images import OTHER


def request(*names: str) -> CreateAclsRequest:
    return CreateAclsRequest(
        [CreateAclsRequestAclCreation(resource_type=2, resource_name=name) for name in names]
    )


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_security_is_disabled(version):
    backend = FakeBackend()
    backend.authorizer = asked = DenySome()
    response = await Client(backend).call(request("a", "b"), version)
    refused = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    assert [(one.error_code, one.error_message) for one in response.results] == [refused] * 2
    assert [one[1:] for one in asked.asked] == [(AclOperation.ALTER, THE_CLUSTER)]


async def test_none():
    response = await Client(FakeBackend()).call(request(), 3)
    assert response.results == []


async def test_denied():
    backend = FakeBackend()
    backend.authorizer = DenySome((AclOperation.ALTER, THE_CLUSTER))
    response = await Client(backend).call(request("a"), 3)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert [(one.error_code, one.error_message) for one in response.results] == [
        (code, code.message)
    ]


async def test_they_are_added_to_the_client_s_instance():
    backend = FakeBackend(has_acls=True)
    why = "Host should not be empty"
    backend.controller.errors["bad"] = (ErrorCode.INVALID_REQUEST, why)
    creations = [
        CreateAclsRequestAclCreation(2, name, 4, "User:alice", "*", 3, 3) for name in ("t", "bad")
    ]
    response = await Client(backend, instance=OTHER).call(CreateAclsRequest(creations), 3)
    assert [(one.error_code, one.error_message) for one in response.results] == [
        (0, None), (ErrorCode.INVALID_REQUEST, why),
    ]  # fmt: skip
    assert backend.image.acls == {Acl(OTHER, 2, 4, "t", "User:alice", "*", 3, 3)}
