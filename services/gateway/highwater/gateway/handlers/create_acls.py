"""CreateAcls v1-3: adds ACLs; refused, as nothing here authorizes clients by them.

Behaviour
- SECURITY_DISABLED for every ACL, as Kafka answers without an authorizer (`AclApis.scala`).
- Without ALTER on the cluster: CLUSTER_AUTHORIZATION_FAILED for every ACL.

Version notes
- v1: prefixed resource patterns (KIP-290). v2: flexible. v3: the resource type USER (KIP-373).
"""

from typing import Final

from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.create_acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    CreateAclsResponseAclCreationResult,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER

_NO_AUTHORIZER: Final = "No Authorizer is configured."


async def handle(context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Refuses every ACL."""
    if not context.allows(AclOperation.ALTER, THE_CLUSTER):
        return failure(request, context.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return _refused(request, ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER)


def failure(request: CreateAclsRequest, _version: int, code: int) -> CreateAclsResponse:
    """The code for every ACL."""
    return _refused(request, code, ErrorCode(code).message)


def _refused(request: CreateAclsRequest, code: int, message: str) -> CreateAclsResponse:
    result = CreateAclsResponseAclCreationResult(code, message)
    return CreateAclsResponse(results=[result for _ in request.creations])
