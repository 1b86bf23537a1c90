"""DescribeAcls v1-3: the ACLs of the client's instance that a filter matches (KIP-140).

Behaviour
- ACLs are grouped by the resources that they are about. A value in the filter that is not known:
  INVALID_REQUEST.
- Without DESCRIBE on the cluster: CLUSTER_AUTHORIZATION_FAILED.
- If the gateway goes by no ACLs (`authorizer`): SECURITY_DISABLED, as Kafka answers without an authorizer
  (`AclApis.scala`).

Version notes
- v1: prefixed resource patterns (KIP-290). v2: flexible. v3: the resource type USER (KIP-373).
"""

from itertools import groupby

from highwater.gateway.handling.acl_messages import NO_AUTHORIZER, acl_filter
from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_acls import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeAclsResponseAclDescription,
    DescribeAclsResponseDescribeAclsResource,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.acls import Acl, invalid_filter
from highwater.model.authorization import THE_CLUSTER


async def handle(context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Answers from the image."""
    if not context.allows(AclOperation.DESCRIBE, THE_CLUSTER):
        return failure(request, context.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not context.backend.settings.has_acls:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=f"{NO_AUTHORIZER} on the broker"
        )
    wanted = acl_filter(context, request)
    why = invalid_filter(wanted)
    if why is not None:
        return DescribeAclsResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=why)
    found = sorted(acl for acl in context.backend.image.acls if wanted.matches(acl))
    return DescribeAclsResponse(
        error_message=None,
        resources=[
            DescribeAclsResponseDescribeAclsResource(
                resource_type=kind,
                resource_name=name,
                pattern_type=pattern,
                acls=[
                    DescribeAclsResponseAclDescription(
                        acl.principal, acl.host, acl.operation, acl.permission
                    )
                    for acl in acls
                ],
            )
            for (kind, pattern, name), acls in groupby(found, _resource)
        ],
    )


def failure(_request: DescribeAclsRequest, _version: int, code: int) -> DescribeAclsResponse:
    """The code and its message, and no resources."""
    return DescribeAclsResponse(error_code=code, error_message=ErrorCode(code).message)


def _resource(acl: Acl) -> tuple[int, int, str]:
    return acl.resource_type, acl.pattern_type, acl.name
