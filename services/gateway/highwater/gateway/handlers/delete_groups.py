"""DeleteGroups v0-2: removes empty groups and their offsets.

Behaviour
- Each group's coordinator decides (NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND); results come back in the
  order of the request. Groups that the client may not DELETE come last, GROUP_AUTHORIZATION_FAILED.

Version notes
- v1: throttle time. v2: flexible.
"""

from collections.abc import Sequence

from highwater.gateway.handling.authorization import denied_groups
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.group_fan_out import ask_coordinators
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import delete_groups as codec
from highwater.model.acl_operations import AclOperation

_Result = codec.DeleteGroupsResponseDeletableGroupResult


async def handle(
    context: RequestContext, request: codec.DeleteGroupsRequest
) -> codec.DeleteGroupsResponse:
    """Asks the coordinators."""
    version = context.api_version

    def decode(body: bytes) -> Sequence[_Result]:
        return codec.decode_response(body, 0, version).results

    # Kafka answers a group once, even if the request names it several times.
    named = list(dict.fromkeys(request.groups_names))
    denied = denied_groups(context, AclOperation.DELETE, named)
    answers = await ask_coordinators(
        context,
        [group_id for group_id in named if group_id not in denied],
        id_of=lambda group_id: group_id,
        encode=lambda ids: codec.encode_request(codec.DeleteGroupsRequest(ids), version),
        decode=decode,
        failed=_Result,
    )
    refusals = [
        _Result(one, ErrorCode.GROUP_AUTHORIZATION_FAILED) for one in named if one in denied
    ]
    return codec.DeleteGroupsResponse(results=[*answers, *refusals])


def failure(
    request: codec.DeleteGroupsRequest, _version: int, code: int
) -> codec.DeleteGroupsResponse:
    """The code for every group."""
    return codec.DeleteGroupsResponse(
        results=[_Result(group_id, code) for group_id in request.groups_names]
    )
