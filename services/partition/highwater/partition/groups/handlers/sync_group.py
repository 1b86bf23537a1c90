"""SyncGroup v0-5 (key 14)."""

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.messages.sync_group import (
    SyncGroupResponse,
    decode_request,
    encode_response,
)
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.core.shard import GroupCoordinatorShard
from highwater.partition.groups.core.values import GroupKey, SyncRequest, SyncResponse


def handle(shard: GroupCoordinatorShard, call: CoordinatorCall, now: Moment) -> None:
    """Pass the request to the shard; the answer comes as one of its replies."""
    body = decode_request(call.body, 0, call.api_version)
    request = SyncRequest(
        key=GroupKey(call.instance, body.group_id),
        generation=body.generation_id,
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        protocol_type=body.protocol_type,
        protocol=body.protocol_name,
        assignments=tuple((a.member_id, a.assignment) for a in body.assignments),
    )
    shard.sync_group(request, call, now)


def encode(response: SyncResponse, version: int) -> bytes:
    """Encode the response body in the client's version."""
    return encode_response(
        SyncGroupResponse(
            error_code=response.error,
            protocol_type=response.protocol_type,
            protocol_name=response.protocol,
            assignment=response.assignment,
        ),
        version,
    )
