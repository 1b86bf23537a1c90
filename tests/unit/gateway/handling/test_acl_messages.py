import pytest

from highwater.gateway.handling.acl_messages import acl_filter
from highwater.kafka.messages.delete_acls import DeleteAclsRequestDeleteAclsFilter
from highwater.kafka.messages.describe_acls import DescribeAclsRequest
from highwater.model.acls import AclFilter
from tests.unit.gateway.handlers.fakes import Client, FakeBackend
from tests.unit.gateway.handlers.images import OTHER


@pytest.mark.parametrize("message", [DescribeAclsRequest, DeleteAclsRequestDeleteAclsFilter])
def test_a_filter_is_within_the_client_s_instance(message):
    context = Client(FakeBackend(), instance=OTHER).context(29, 3)
    asked = message(2, "name", 3, None, "host", 4, 5)
    assert acl_filter(context, asked) == AclFilter(OTHER, 2, 3, "name", None, "host", 4, 5)
