"""DescribeGroups v0-6: state and members of groups.

Behaviour
- Each group's coordinator answers; results come back in the order of the request. A group that
  does not exist is "Dead", up to v5 without an error.
- Groups that the client may not DESCRIBE are GROUP_AUTHORIZATION_FAILED.
- Authorized operations (v3+) are sent for groups without an error, if the client asks for them. The
  authorizer has them; what the coordinator says is replaced.

Version notes
- v1: throttle time. v3: authorized operations. v4: static members. v5: flexible.
- v6: error message, and GROUP_ID_NOT_FOUND for a group that does not exist (KIP-1043).
"""

from collections.abc import Sequence

from highwater.gateway.handling.authorization import denied_groups, group_operations
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.group_fan_out import ask_coordinators
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import describe_groups as codec
from highwater.model.acl_operations import AclOperation

_Group = codec.DescribeGroupsResponseDescribedGroup


async def handle(
    context: RequestContext, request: codec.DescribeGroupsRequest
) -> codec.DescribeGroupsResponse:
    """Asks the coordinators."""
    version = context.api_version

    def encode(ids: list[str]) -> bytes:
        operations = request.include_authorized_operations
        return codec.encode_request(codec.DescribeGroupsRequest(ids, operations), version)

    def decode(body: bytes) -> Sequence[_Group]:
        return codec.decode_response(body, 0, version).groups

    denied = denied_groups(context, AclOperation.DESCRIBE, request.groups)
    found = await ask_coordinators(
        context,
        [group_id for group_id in request.groups if group_id not in denied],
        id_of=lambda group_id: group_id,
        encode=encode,
        decode=decode,
        failed=lambda group_id, code: _Group(error_code=code, group_id=group_id),
    )
    for group in found:
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = group_operations(context, group.group_id)
    answers = iter(found)
    return codec.DescribeGroupsResponse(
        groups=[
            _Group(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id)
            if group_id in denied
            else next(answers)
            for group_id in request.groups
        ]
    )


def failure(
    request: codec.DescribeGroupsRequest, _version: int, code: int
) -> codec.DescribeGroupsResponse:
    """The code for every group."""
    return codec.DescribeGroupsResponse(
        groups=[_Group(error_code=code, group_id=group_id) for group_id in request.groups]
    )
