"""ConsumerGroupDescribe v0-1: state, members and assignments of consumer groups (KIP-848).

Behaviour
- Each group's coordinator answers; results come back in the order of the request. A group that does
  not exist, or is a classic one, is GROUP_ID_NOT_FOUND: tools then ask DescribeGroups.
- Groups that the client may not DESCRIBE are GROUP_AUTHORIZATION_FAILED; those with a topic that it
  may not DESCRIBE are TOPIC_AUTHORIZATION_FAILED, without members.
- Authorized operations are sent for groups without an error, if the client asks for them. The
  authorizer has them; what the coordinator says is replaced.

Version notes
- v1: the type of each member, classic or consumer.
"""

from collections.abc import Sequence
from typing import Final

from highwater.gateway.handling.authorization import (
    denied_groups,
    denied_topics,
    group_operations,
)
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.group_fan_out import ask_coordinators
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import consumer_group_describe as codec
from highwater.model.acl_operations import AclOperation

_Group = codec.ConsumerGroupDescribeResponseDescribedGroup

_HIDDEN_TOPICS: Final = (
    "The group has described topic(s) that the client is not authorized to describe."
)


async def handle(
    context: RequestContext, request: codec.ConsumerGroupDescribeRequest
) -> codec.ConsumerGroupDescribeResponse:
    """Asks the coordinators."""
    version = context.api_version

    def encode(ids: list[str]) -> bytes:
        return codec.encode_request(codec.ConsumerGroupDescribeRequest(ids), version)

    def decode(body: bytes) -> Sequence[_Group]:
        return codec.decode_response(body, 0, version).groups

    denied = denied_groups(context, AclOperation.DESCRIBE, request.group_ids)
    found = await ask_coordinators(
        context,
        [group_id for group_id in request.group_ids if group_id not in denied],
        id_of=lambda group_id: group_id,
        encode=encode,
        decode=decode,
        failed=lambda group_id, code: _Group(error_code=code, group_id=group_id),
    )
    answers = iter(
        [_seen(context, group, request.include_authorized_operations) for group in found]
    )
    return codec.ConsumerGroupDescribeResponse(
        groups=[
            _Group(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id)
            if group_id in denied
            else next(answers)
            for group_id in request.group_ids
        ]
    )


def _seen(context: RequestContext, group: _Group, with_operations: bool) -> _Group:
    """The group as the client may see it."""
    if group.error_code:
        return group
    names = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    if denied_topics(context, AclOperation.DESCRIBE, names):
        return _Group(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message=_HIDDEN_TOPICS,
            group_id=group.group_id,
        )
    if with_operations:
        group.authorized_operations = group_operations(context, group.group_id)
    return group


def failure(
    request: codec.ConsumerGroupDescribeRequest, _version: int, code: int
) -> codec.ConsumerGroupDescribeResponse:
    """The code for every group."""
    return codec.ConsumerGroupDescribeResponse(
        groups=[_Group(error_code=code, group_id=group_id) for group_id in request.group_ids]
    )
