"""Offsets of consumer groups: who may commit and fetch, what is kept and for how long.

Kafka: `validateOffsetCommit`, `validateOffsetFetch` and `offsetExpirationCondition` of
ConsumerGroup.java.
"""

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.consumer.durable import tombstones_of
from highwater.partition.groups.consumer.group import ConsumerGroup
from highwater.partition.groups.consumer.member import ConsumerMember
from highwater.partition.groups.core.durable import CommittedOffset, OffsetRecord
from highwater.partition.groups.core.shard_state import ShardState
from highwater.partition.groups.core.values import CommitRequest, GroupKey


def validate_commit(group: ConsumerGroup, request: CommitRequest) -> ErrorCode:
    """NONE if this client may commit for the group now, otherwise the error.

    A client that is no member may while the group has none.
    """
    if request.generation < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.metadata.classic is None and not request.knows_member_epochs:
        return ErrorCode.UNSUPPORTED_VERSION
    return _validate_epoch(member, request.generation)


def validate_pending(group: ConsumerGroup, request: CommitRequest) -> ErrorCode:
    """NONE if a producer may commit for the group in its transaction now, otherwise the error.

    One that names neither member nor epoch always may. TxnOffsetCommit has no code for a stale epoch
    (`OffsetMetadataManager.validateTransactionalOffsetCommit`).
    """
    if request.generation < 0 and not group.members:
        return ErrorCode.NONE
    if request.generation == -1 and not request.member_id and request.instance_id is None:
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    is_current = request.generation == member.current.epoch
    return ErrorCode.NONE if is_current else ErrorCode.ILLEGAL_GENERATION


def validate_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """NONE if this client may fetch offsets; one that names neither member nor epoch always may."""
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    return ErrorCode.UNKNOWN_MEMBER_ID if member is None else _validate_epoch(member, epoch)


def _validate_epoch(member: ConsumerMember, epoch: int) -> ErrorCode:
    if epoch == member.current.epoch:
        return ErrorCode.NONE
    if member.metadata.classic is not None:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.STALE_MEMBER_EPOCH


def expire(state: ShardState, key: GroupKey, group: ConsumerGroup, now: Moment) -> None:
    """Delete offsets of topics that nobody reads, a retention time after their commit.

    An empty group without offsets goes, too. What an open transaction may change stays.
    """
    topics = group.subscribed_topics()
    pending = state.durable.pending
    is_used = bool(group.members) or key in pending
    for (topic, partition), value in list(state.durable.offsets.get(key, {}).items()):
        is_read = topic in topics or pending.is_unstable(key, (topic, partition))
        if not is_read and _is_expired(state, value, now.wall_ms):
            state.apply(OffsetRecord(key, topic, partition, None))
        else:
            is_used = True
    if not is_used:
        delete(state, key, group)


def delete(state: ShardState, key: GroupKey, group: ConsumerGroup) -> None:
    """Delete the group's records, not its offsets."""
    for record in tombstones_of(key, group.copy()):
        state.apply(record)


def _is_expired(state: ShardState, value: CommittedOffset, wall_ms: int) -> bool:
    if value.expire_ms >= 0:
        return wall_ms >= value.expire_ms
    return wall_ms - value.commit_ms >= state.config.offsets_retention_ms
