"""DescribeGroups v0-6: state and members of groups.

Behaviour
- Each group's coordinator answers; results come back in the order of the request. A group that
  does not exist is "Dead", up to v5 without an error.
- The coordinator also returns the authorized operations (v3+), if the client asks for them: all
  operations of a group, as there is no authorizer.

Version notes
- v1: throttle time. v3: authorized operations. v4: static members. v5: flexible.
- v6: error message, and GROUP_ID_NOT_FOUND for a group that does not exist (KIP-1043).
"""

from collections.abc import Sequence

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.group_fan_out import ask_coordinators
from highwater.kafka.messages import describe_groups as codec

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

    groups = await ask_coordinators(
        context,
        request.groups,
        id_of=lambda group_id: group_id,
        encode=encode,
        decode=decode,
        failed=lambda group_id, code: _Group(error_code=code, group_id=group_id),
    )
    return codec.DescribeGroupsResponse(groups=groups)


def failure(
    request: codec.DescribeGroupsRequest, _version: int, code: int
) -> codec.DescribeGroupsResponse:
    """The code for every group."""
    return codec.DescribeGroupsResponse(
        groups=[_Group(error_code=code, group_id=group_id) for group_id in request.groups]
    )
