"""CreateAcls v1-3: adds ACLs to the client's instance (KIP-140).

Behaviour
- An ACL that is there already is a success. A type, pattern, operation or permission that is not known, an
  empty name or host, another name than kafka-cluster for the cluster, a principal without a colon:
  INVALID_REQUEST. The others are added.
- Without ALTER on the cluster: CLUSTER_AUTHORIZATION_FAILED for every ACL.
- If the gateway goes by no ACLs (`authorizer`): SECURITY_DISABLED for every ACL, as Kafka answers without an
  authorizer (`AclApis.scala`).

Version notes
- v1: prefixed resource patterns (KIP-290). v2: flexible. v3: the resource type USER (KIP-373).

Deviations
- At most 10 000 ACLs in an instance (POLICY_VIOLATION); names, principals and hosts have at most 1 024 characters.
"""

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.gateway.handling.acl_messages import NO_AUTHORIZER
from highwater.gateway.handling.admin_calls import await_visible, call_timeout_s
from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.create_acls import (
    CreateAclsRequest,
    CreateAclsRequestAclCreation,
    CreateAclsResponse,
    CreateAclsResponseAclCreationResult,
)
from highwater.metadata.convert_access import acl_to_pb
from highwater.model.acl_operations import AclOperation
from highwater.model.acls import Acl
from highwater.model.authorization import THE_CLUSTER

_Result = CreateAclsResponseAclCreationResult


async def handle(context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Asks the controller."""
    if not context.allows(AclOperation.ALTER, THE_CLUSTER):
        return failure(request, context.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not context.backend.settings.has_acls:
        return _refused(request, ErrorCode.SECURITY_DISABLED, f"{NO_AUTHORIZER}.")
    acls = [acl_to_pb(_acl(context, creation)) for creation in request.creations]
    response = await context.backend.controller.create_acls(
        pb.CreateAclsRequest(acls=acls), timeout_s=call_timeout_s(context)
    )
    await await_visible(context, response.revision)
    results = [_Result(error.error_code, error.message or None) for error in response.errors]
    return CreateAclsResponse(results=results)


def failure(request: CreateAclsRequest, _version: int, code: int) -> CreateAclsResponse:
    """The code for every ACL."""
    return _refused(request, code, ErrorCode(code).message)


def _refused(request: CreateAclsRequest, code: int, message: str) -> CreateAclsResponse:
    return CreateAclsResponse(results=[_Result(code, message) for _ in request.creations])


def _acl(context: RequestContext, creation: CreateAclsRequestAclCreation) -> Acl:
    return Acl(
        context.peer.instance,
        creation.resource_type,
        creation.resource_pattern_type,
        creation.resource_name,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )
