import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_acls import DescribeAclsRequest
from highwater.model.acl_operations import AclOperation
from highwater.model.acls import Acl
from highwater.model.authorization import THE_CLUSTER
from highwater.model.ids import DEFAULT_INSTANCE
from tests.unit.gateway.handlers.fakes import (
    Client,
    DenySome,
    FakeBackend,
)
from tests.unit.gateway.handlers.images import OTHER

VERSIONS = [1, 2, 3]


@pytest.mark.parametrize("version", VERSIONS)
async def test_security_is_disabled(version):
    backend = FakeBackend()
    backend.authorizer = asked = DenySome()
    response = await Client(backend).call(DescribeAclsRequest(resource_type_filter=1), version)
    assert response.error_code == ErrorCode.SECURITY_DISABLED
    assert response.error_message == "No Authorizer is configured on the broker"
    assert response.resources == []
    assert [one[1:] for one in asked.asked] == [(AclOperation.DESCRIBE, THE_CLUSTER)]


async def test_denied():
    backend = FakeBackend()
    backend.authorizer = DenySome((AclOperation.DESCRIBE, THE_CLUSTER))
    response = await Client(backend).call(DescribeAclsRequest(), 3)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert response.error_message == ErrorCode.CLUSTER_AUTHORIZATION_FAILED.message


def asking(kind=1, pattern=1, name=None, operation=1):
    return DescribeAclsRequest(kind, name, pattern, None, None, operation, 1)


async def test_acls_are_grouped_by_resource():
    backend = FakeBackend(has_acls=True)
    mine = [
        Acl(OTHER, 2, 3, "t", "User:alice", "*", 3, 3),
        Acl(OTHER, 2, 3, "t", "User:bob", "h", 4, 2),
        Acl(OTHER, 2, 4, "t", "User:alice", "*", 3, 3),
    ]
    backend.change(acls=dict.fromkeys([*mine, Acl(DEFAULT_INSTANCE, *mine[0][1:])], True))
    client = Client(backend, instance=OTHER)
    response = await client.call(asking(), 3)
    assert (response.error_code, response.error_message) == (0, None)
    assert [
        (one.resource_type, one.pattern_type, one.resource_name, len(one.acls))
        for one in response.resources
    ] == [(2, 3, "t", 2), (2, 4, "t", 1)]
    told = response.resources[0].acls[1]
    assert (told.principal, told.host, told.operation, told.permission_type) == (
        "User:bob", "h", 4, 2,
    )  # fmt: skip
    response = await client.call(asking(kind=3), 3)
    assert response.resources == []


async def test_a_filter_with_an_unknown_value():
    response = await Client(FakeBackend(has_acls=True)).call(asking(operation=99), 3)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.error_message == "Invalid operation 99"
