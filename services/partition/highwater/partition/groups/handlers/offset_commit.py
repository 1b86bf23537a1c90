"""OffsetCommit v2-9 (key 8).

* v2-4 have a retention time of their own; v6 adds the leader epoch, v7 the instance id.
* v9 has the member epoch of a consumer group (KIP-848), which fences members that are behind with
  STALE_MEMBER_EPOCH, but for partitions that they have had since the epoch they name (KIP-1251). It answers GROUP_ID_NOT_FOUND to a member of a group that does not exist, instead of
  ILLEGAL_GENERATION.
* The gateway checks whether the topics exist, and turns v10 (topic ids) into v9.
"""

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponseOffsetCommitResponsePartition,
    OffsetCommitResponseOffsetCommitResponseTopic,
    decode_request,
    encode_response,
)
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.core.shard import GroupCoordinatorShard
from highwater.partition.groups.core.values import (
    CommitRequest,
    GroupKey,
    OffsetToCommit,
)

_MEMBER_EPOCHS_FROM = 9


def handle(shard: GroupCoordinatorShard, call: CoordinatorCall, now: Moment) -> bytes:
    """Commit the offsets; the response is sent when the records are committed."""
    version = call.api_version
    body = decode_request(call.body, 0, version)
    offsets = tuple(
        OffsetToCommit(
            topic.name,
            p.partition_index,
            p.committed_offset,
            p.committed_leader_epoch,
            p.committed_metadata or "",
        )
        for topic in body.topics
        for p in topic.partitions
    )
    request = CommitRequest(
        key=GroupKey(call.instance, body.group_id),
        generation=body.generation_id_or_member_epoch,
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        retention_ms=body.retention_time_ms,
        offsets=offsets,
        knows_member_epochs=version >= _MEMBER_EPOCHS_FROM,
    )
    errors = iter(shard.commit_offsets(request, now))
    topics = [
        OffsetCommitResponseOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                OffsetCommitResponseOffsetCommitResponsePartition(
                    partition_index=p.partition_index, error_code=next(errors)
                )
                for p in topic.partitions
            ],
        )
        for topic in body.topics
    ]
    return encode_response(OffsetCommitResponse(topics=topics), version)
