"""LeaveGroup v0-5 (key 13).

* v0-2: one member; its error is the response's error.
* v3: several members, by member id or instance id, each with its own error (KIP-345).
* v5: the request has a reason, which is ignored (KIP-800).
"""

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.leave_group import (
    LeaveGroupResponse,
    LeaveGroupResponseMemberResponse,
    decode_request,
    encode_response,
)
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.core.shard import GroupCoordinatorShard
from highwater.partition.groups.core.values import GroupKey, LeavingMember

_BATCH_FROM = 3


def handle(shard: GroupCoordinatorShard, call: CoordinatorCall, now: Moment) -> bytes:
    """Remove the members and return the error of each."""
    version = call.api_version
    body = decode_request(call.body, 0, version)
    if version < _BATCH_FROM:
        leaving: tuple[LeavingMember, ...] = (LeavingMember(member_id=body.member_id),)
    else:
        leaving = tuple(
            LeavingMember(member_id=m.member_id, instance_id=m.group_instance_id)
            for m in body.members
        )
    error, errors = shard.leave_group(GroupKey(call.instance, body.group_id), leaving, now)
    if version < _BATCH_FROM:
        if error is ErrorCode.NONE:
            error = errors[0]
        return encode_response(LeaveGroupResponse(error_code=error), version)
    members = [
        LeaveGroupResponseMemberResponse(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            error_code=member_error,
        )
        for member, member_error in zip(leaving, errors, strict=False)
    ]
    return encode_response(LeaveGroupResponse(error_code=error, members=members), version)
