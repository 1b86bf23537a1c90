"""DeleteAcls v1-3: removes the ACLs that filters match; there are none.

Behaviour
- SECURITY_DISABLED for every filter, as Kafka answers without an authorizer (`AclApis.scala`).
- Without ALTER on the cluster: CLUSTER_AUTHORIZATION_FAILED for every filter.

Version notes
- v1: prefixed resource patterns (KIP-290). v2: flexible. v3: the resource type USER (KIP-373).
"""

from typing import Final

from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.delete_acls import (
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeleteAclsResponseDeleteAclsFilterResult,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER

_NO_AUTHORIZER: Final = "No Authorizer is configured."


async def handle(context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Refuses every filter."""
    if not context.allows(AclOperation.ALTER, THE_CLUSTER):
        return failure(request, context.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return _refused(request, ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER)


def failure(request: DeleteAclsRequest, _version: int, code: int) -> DeleteAclsResponse:
    """The code for every filter."""
    return _refused(request, code, ErrorCode(code).message)


def _refused(request: DeleteAclsRequest, code: int, message: str) -> DeleteAclsResponse:
    result = DeleteAclsResponseDeleteAclsFilterResult(code, message)
    return DeleteAclsResponse(filter_results=[result for _ in request.filters])
