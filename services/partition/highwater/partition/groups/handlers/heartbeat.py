"""Heartbeat v0-4 (key 12), on the hot path: one encoded response per version and error."""

from functools import cache

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.messages.heartbeat import (
    HeartbeatResponse,
    decode_request,
    encode_response,
)
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.core.shard import GroupCoordinatorShard
from highwater.partition.groups.core.values import GroupKey


def handle(shard: GroupCoordinatorShard, call: CoordinatorCall, now: Moment) -> bytes:
    """Answer at once; a heartbeat writes no record."""
    version = call.api_version
    body = decode_request(call.body, 0, version)
    error = shard.heartbeat(
        GroupKey(call.instance, body.group_id),
        body.generation_id,
        body.member_id,
        body.group_instance_id,
        now,
    )
    return encode(error, version)


# At most one entry per error code and version.
@cache
def encode(error: int, version: int) -> bytes:
    """Encode the response body in the client's version."""
    return encode_response(HeartbeatResponse(error_code=error), version)
