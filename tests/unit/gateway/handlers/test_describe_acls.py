import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_acls import DescribeAclsRequest
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from tests.unit.gateway.handlers.fakes import Client, DenySome, FakeBackend

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
