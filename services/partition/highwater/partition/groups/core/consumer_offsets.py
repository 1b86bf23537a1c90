"""Offsets of consumer groups: who may commit and fetch, what is kept and for how long.

Kafka: `validateOffsetCommit`, `validateOffsetFetch` and `offsetExpirationCondition` of
ConsumerGroup.java.
"""

from collections.abc import Callable

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import InstanceId, TopicId
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.consumer.durable import tombstones_of
from highwater.partition.groups.consumer.group import ConsumerGroup
from highwater.partition.groups.consumer.member import ConsumerMember
from highwater.partition.groups.core.durable import CommittedOffset, OffsetRecord
from highwater.partition.groups.core.shard_state import ShardState
from highwater.partition.groups.core.values import CommitRequest, GroupKey

TopicIds = Callable[[InstanceId, str], TopicId | None]
"""The id of an instance's topic, or None."""


def validate_commit(
    group: ConsumerGroup, request: CommitRequest, topic_ids: TopicIds
) -> list[ErrorCode]:
    """One for each of the request's offsets: NONE if this client may commit it now, otherwise the error.

    A client that is no member may while the group has none. A member that does not know its newest epoch
    yet may for the partitions that it has had since the epoch that it names (KIP-1251).
    """
    error = _validate_committer(group, request)
    if error is not ErrorCode.NONE:
        return [error] * len(request.offsets)
    member = group.members.get(request.member_id)
    if member is None:
        return [ErrorCode.NONE] * len(request.offsets)
    return _validate_partitions(member, request, topic_ids)


def _validate_committer(group: ConsumerGroup, request: CommitRequest) -> ErrorCode:
    """The error of the whole request. If it is NONE, a member's epoch has not been looked at."""
    if request.generation < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.metadata.classic is None and not request.knows_member_epochs:
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE


def validate_pending(
    group: ConsumerGroup, request: CommitRequest, topic_ids: TopicIds
) -> list[ErrorCode]:
    """The same for a producer that commits for the group in its transaction.

    One that names neither member nor epoch always may. TxnOffsetCommit has no code for a stale epoch
    (`OffsetMetadataManager.validateTransactionalOffsetCommit`).
    """
    count = len(request.offsets)
    if request.generation < 0 and not group.members:
        return [ErrorCode.NONE] * count
    if request.generation == -1 and not request.member_id and request.instance_id is None:
        return [ErrorCode.NONE] * count
    member = group.members.get(request.member_id)
    if member is None:
        return [ErrorCode.UNKNOWN_MEMBER_ID] * count
    errors = _validate_partitions(member, request, topic_ids)
    return [e if e is ErrorCode.NONE else ErrorCode.ILLEGAL_GENERATION for e in errors]


def _validate_partitions(
    member: ConsumerMember, request: CommitRequest, topic_ids: TopicIds
) -> list[ErrorCode]:
    """Kafka: `createAssignmentEpochValidator`."""
    error = _validate_epoch(member, request.generation)
    if error is ErrorCode.NONE or request.generation > member.current.epoch:
        return [error] * len(request.offsets)
    errors = []
    for offset in request.offsets:
        topic_id = topic_ids(request.key.instance, offset.topic)
        holds = topic_id is not None and member.current.holds_since(
            (topic_id, offset.partition), request.generation
        )
        errors.append(ErrorCode.NONE if holds else error)
    return errors


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
