"""DescribeAcls v1-3: the ACLs that a filter matches; there are none, as nothing authorizes clients.

Behaviour
- SECURITY_DISABLED, as Kafka answers without an authorizer (`AclApis.scala`).
- Without DESCRIBE on the cluster: CLUSTER_AUTHORIZATION_FAILED.

Version notes
- v1: prefixed resource patterns (KIP-290). v2: flexible. v3: the resource type USER (KIP-373).
"""

from typing import Final

from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER

_NO_AUTHORIZER: Final = "No Authorizer is configured on the broker"


async def handle(context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Refuses the request."""
    if not context.allows(AclOperation.DESCRIBE, THE_CLUSTER):
        return failure(request, context.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=_NO_AUTHORIZER
    )


def failure(_request: DescribeAclsRequest, _version: int, code: int) -> DescribeAclsResponse:
    """The code and its message, and no resources."""
    return DescribeAclsResponse(error_code=code, error_message=ErrorCode(code).message)
