import pytest

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.delete_acls import (
    DeleteAclsRequest,
    DeleteAclsRequestDeleteAclsFilter,
)
from highwater.metadata.convert_access import acl_to_pb
from highwater.model.acl_operations import AclOperation
from highwater.model.acls import Acl
from highwater.model.authorization import THE_CLUSTER
from tests.unit.gateway.handlers.fakes import (
    Client,
    DenySome,
    FakeBackend,
)
from tests.unit.gateway.handlers.images import OTHER


def request(*names: str) -> DeleteAclsRequest:
    return DeleteAclsRequest(
        [
            DeleteAclsRequestDeleteAclsFilter(resource_type_filter=2, resource_name_filter=name)
            for name in names
        ]
    )


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_security_is_disabled(version):
    backend = FakeBackend()
    backend.authorizer = asked = DenySome()
    response = await Client(backend).call(request("a", "b"), version)
    refused = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    assert [(one.error_code, one.error_message) for one in response.filter_results] == [refused] * 2
    assert [one[1:] for one in asked.asked] == [(AclOperation.ALTER, THE_CLUSTER)]


async def test_none():
    response = await Client(FakeBackend()).call(request(), 3)
    assert response.filter_results == []


async def test_denied():
    backend = FakeBackend()
    backend.authorizer = DenySome((AclOperation.ALTER, THE_CLUSTER))
    response = await Client(backend).call(request("a"), 3)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert [(one.error_code, one.error_message) for one in response.filter_results] == [
        (code, code.message)
    ]


async def test_each_filter_tells_what_it_has_removed():
    backend = FakeBackend(has_acls=True)
    entry = Acl(OTHER, 2, 3, "t", "User:alice", "*", 3, 2)
    error = pb.ApiError(error_code=ErrorCode.INVALID_REQUEST, message="Invalid operation 0")
    backend.controller.removals = [
        pb.AclRemoval(acls=[acl_to_pb(entry)]), pb.AclRemoval(error=error),
    ]  # fmt: skip
    asked = DeleteAclsRequestDeleteAclsFilter(2, None, 1, "User:alice", None, 1, 1)
    client = Client(backend, instance=OTHER)
    response = await client.call(DeleteAclsRequest([asked, asked]), 3)
    first, second = response.filter_results
    (found,) = first.matching_acls
    assert (first.error_code, first.error_message) == (0, None)
    assert (found.resource_type, found.resource_name, found.pattern_type) == (2, "t", 3)
    assert (found.principal, found.host, found.operation, found.permission_type) == (
        "User:alice", "*", 3, 2,
    )  # fmt: skip
    assert (second.error_code, second.error_message) == (error.error_code, error.message)
    (sent,) = backend.controller.requests
    one = sent.filters[0]
    assert (one.instance, one.resource_type, one.pattern_type) == (OTHER, 2, 1)
    assert (one.HasField("name"), one.principal, one.HasField("host")) == (
        False,
        "User:alice",
        False,
    )
