"""TxnOffsetCommit v0-5 (key 28).

* v2 adds the leader epoch; v3 the group's generation, member id and instance id (KIP-447), which
  are not judged if they are missing. Members of consumer groups name their epoch as the generation.
* v5 says that the client takes part in KIP-890: whether the group is in the transaction is found
  out before this call, as for a batch of records.
* The gateway checks whether the topics exist.
"""

from collections.abc import Sequence

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTxnOffsetCommitResponseTopic,
    decode_request,
    encode_response,
)
from highwater.partition.coordinator.core.values import Moment, Producer
from highwater.partition.groups.core.shard import GroupCoordinatorShard
from highwater.partition.groups.core.values import CommitRequest, GroupKey, OffsetToCommit

NO_GENERATION = -1
_GENERATION_FROM = 3


def decode(call: CoordinatorCall) -> TxnOffsetCommitRequest:
    """The request. Raises DecodeError."""
    return decode_request(call.body, 0, call.api_version)


def handle(
    shard: GroupCoordinatorShard, call: CoordinatorCall, body: TxnOffsetCommitRequest, now: Moment
) -> bytes:
    """Note the offsets of the transaction; the response is sent when the records are committed."""
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
    named = call.api_version >= _GENERATION_FROM
    request = CommitRequest(
        key=GroupKey(call.instance, body.group_id),
        generation=body.generation_id if named else NO_GENERATION,
        member_id=body.member_id if named else "",
        instance_id=body.group_instance_id if named else None,
        retention_ms=-1,
        offsets=offsets,
    )
    producer = Producer(body.producer_id, body.producer_epoch)
    return encode(body, call.api_version, shard.commit_pending(request, producer, now))


def encode(body: TxnOffsetCommitRequest, version: int, errors: Sequence[int]) -> bytes:
    """The response with one error per partition of the request, in order."""
    codes = iter(errors)
    topics = [
        TxnOffsetCommitResponseTxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponseTxnOffsetCommitResponsePartition(
                    partition_index=p.partition_index, error_code=next(codes)
                )
                for p in topic.partitions
            ],
        )
        for topic in body.topics
    ]
    return encode_response(TxnOffsetCommitResponse(topics=topics), version)


def refuse(body: TxnOffsetCommitRequest, version: int, error: int) -> bytes:
    """The response with the same error for each partition."""
    return encode(body, version, [error] * sum(len(topic.partitions) for topic in body.topics))
