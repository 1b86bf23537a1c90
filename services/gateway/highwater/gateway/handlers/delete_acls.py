"""DeleteAcls v1-3: removes the ACLs of the client's instance that filters match (KIP-140).

Behaviour
- Each filter's answer has the ACLs that it matched, none if there were none. A value in a filter that is not
  known: INVALID_REQUEST for that filter.
- Without ALTER on the cluster: CLUSTER_AUTHORIZATION_FAILED for every filter.
- If the gateway goes by no ACLs (`authorizer`): SECURITY_DISABLED for every filter, as Kafka answers without
  an authorizer (`AclApis.scala`).

Version notes
- v1: prefixed resource patterns (KIP-290). v2: flexible. v3: the resource type USER (KIP-373).
"""

from highwater.api.controller.v1 import cluster_pb2
from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.gateway.handling.acl_messages import NO_AUTHORIZER, acl_filter
from highwater.gateway.handling.admin_calls import await_visible, call_timeout_s
from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.delete_acls import (
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeleteAclsResponseDeleteAclsFilterResult,
    DeleteAclsResponseDeleteAclsMatchingAcl,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.acls import AclFilter
from highwater.model.authorization import THE_CLUSTER

_Result = DeleteAclsResponseDeleteAclsFilterResult


async def handle(context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Asks the controller."""
    if not context.allows(AclOperation.ALTER, THE_CLUSTER):
        return failure(request, context.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not context.backend.settings.has_acls:
        return _refused(request, ErrorCode.SECURITY_DISABLED, f"{NO_AUTHORIZER}.")
    filters = [_filter_to_pb(acl_filter(context, each)) for each in request.filters]
    response = await context.backend.controller.delete_acls(
        pb.DeleteAclsRequest(filters=filters), timeout_s=call_timeout_s(context)
    )
    await await_visible(context, response.revision)
    return DeleteAclsResponse(filter_results=[_result(each) for each in response.removals])


def failure(request: DeleteAclsRequest, _version: int, code: int) -> DeleteAclsResponse:
    """The code for every filter."""
    return _refused(request, code, ErrorCode(code).message)


def _refused(request: DeleteAclsRequest, code: int, message: str) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[_Result(code, message) for _ in request.filters])


def _filter_to_pb(each: AclFilter) -> pb.AclFilter:
    return pb.AclFilter(
        instance=each.instance,
        resource_type=each.resource_type,
        pattern_type=each.pattern_type,
        name=each.name,
        principal=each.principal,
        host=each.host,
        operation=each.operation,
        permission=each.permission,
    )


def _result(removal: pb.AclRemoval) -> _Result:
    return _Result(
        removal.error.error_code,
        removal.error.message or None,
        [_matching(acl) for acl in removal.acls],
    )


def _matching(acl: cluster_pb2.Acl) -> DeleteAclsResponseDeleteAclsMatchingAcl:
    return DeleteAclsResponseDeleteAclsMatchingAcl(
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
