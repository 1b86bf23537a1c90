"""OffsetDelete v0 (key 47): deletes committed offsets of topics that the group does not read."""

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponseOffsetDeleteResponsePartition,
    OffsetDeleteResponseOffsetDeleteResponseTopic,
    decode_request,
    encode_response,
)
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.core.shard import GroupCoordinatorShard
from highwater.partition.groups.core.values import GroupKey


def handle(shard: GroupCoordinatorShard, call: CoordinatorCall, now: Moment) -> bytes:
    """Delete what may be deleted; if the whole call fails, the answer lists no topics."""
    version = call.api_version
    body = decode_request(call.body, 0, version)
    slots = [(t.name, p.partition_index) for t in body.topics for p in t.partitions]
    error, errors = shard.delete_offsets(GroupKey(call.instance, body.group_id), slots, now)
    if error is not ErrorCode.NONE:
        return encode_response(OffsetDeleteResponse(error_code=error), version)
    left = iter(errors)
    topics = [
        OffsetDeleteResponseOffsetDeleteResponseTopic(
            name=t.name,
            partitions=[
                OffsetDeleteResponseOffsetDeleteResponsePartition(
                    partition_index=p.partition_index, error_code=next(left)
                )
                for p in t.partitions
            ],
        )
        for t in body.topics
    ]
    return encode_response(OffsetDeleteResponse(topics=topics), version)
