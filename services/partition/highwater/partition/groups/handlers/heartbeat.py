"""Heartbeat v0-4 (key 12): the hot one, so responses are encoded once per version and error."""

from functools import cache

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.messages.heartbeat import (
    HeartbeatResponse,
    decode_request,
    encode_response,
)
from highwater.partition.groups.core.shard import GroupCoordinatorShard
from highwater.partition.groups.core.values import GroupKey, Moment


def handle(shard: GroupCoordinatorShard, call: CoordinatorCall, now: Moment) -> bytes:
    """Answer at once; a heartbeat writes nothing and waits for nothing."""
    version = call.api_version
    body = decode_request(call.body, 0, version)
    error = shard.heartbeat(
        GroupKey(call.instance, body.group_id),
        body.generation_id,
        body.member_id,
        body.group_instance_id,
        now.now_ms,
    )
    return encode(error, version)


# Bounded by the number of error codes times versions.
@cache
def encode(error: int, version: int) -> bytes:
    """The response body for a client of that version."""
    return encode_response(HeartbeatResponse(error_code=error), version)
