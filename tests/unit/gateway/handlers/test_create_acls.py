import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.create_acls import (
    CreateAclsRequest,
    CreateAclsRequestAclCreation,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from tests.unit.gateway.handlers.fakes import Client, DenySome, FakeBackend


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
