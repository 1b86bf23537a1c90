"""OffsetCommit v2-9, OffsetFetch v1-9, OffsetDelete v0, and the expiry of offsets (KIP-211).

* A simple commit (generation -1, no member) is accepted only while the group has no members.
* Metadata longer than offset.metadata.max.bytes is an error of its partition alone.
* Offsets expire a retention time after the group became empty. Offsets of a simple consumer, and
  of topics that a stable group no longer reads, expire a retention time after their commit.
* With `require_stable` (v7), offsets that an open transaction may change are UNSTABLE_OFFSET_COMMIT
  (see `transactional`).
* Members of consumer groups are fenced by their epochs (`consumer_offsets`).

Kafka: OffsetMetadataManager.java, `ClassicGroup.validateOffsetCommit`.
"""

from collections.abc import Iterable

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.core.values import Moment, Producer
from highwater.partition.groups.consumer.sizes import text_size
from highwater.partition.groups.core import consumer_offsets, rebalance
from highwater.partition.groups.core.consumer_offsets import TopicIds
from highwater.partition.groups.core.durable import (
    CommittedOffset,
    GroupRecord,
    OffsetRecord,
)
from highwater.partition.groups.core.group import ClassicGroup
from highwater.partition.groups.core.shard_state import ShardState
from highwater.partition.groups.core.state import COMPLETING_REBALANCE, DEAD, EMPTY, STABLE
from highwater.partition.groups.core.subscription import is_subscribed, subscribed_topics
from highwater.partition.groups.core.values import CommitRequest, GroupKey

TIMESTAMP_MAX = 2**63 - 1
"""The latest expiry time; a longer retention time means for ever."""
_OFFSET_OVERHEAD_BYTES = 64
"""Fixed fields and framing of one offset's key and value, rounded up."""


def commit_offsets(
    state: ShardState, request: CommitRequest, topic_ids: TopicIds, now: Moment
) -> list[ErrorCode]:
    """Commit the offsets; return one error per entry of `request.offsets`, in order."""
    group = state.groups.get(request.key)
    consumer = state.durable.consumer_groups.get(request.key)
    if consumer is None:
        error = _validate_classic(state, group, request)
        if error is not ErrorCode.NONE:
            return [error] * len(request.offsets)
        refused = [ErrorCode.NONE] * len(request.offsets)
    else:
        refused = consumer_offsets.validate_commit(consumer, request, topic_ids)
        if ErrorCode.NONE not in refused:
            return refused
    error = validate_size(state, request)
    if error is not ErrorCode.NONE:
        return [error] * len(request.offsets)
    if group is None:
        if request.key not in state.durable.consumer_groups:
            group = rebalance.create_group(state, request.key, now.wall_ms)
    elif request.generation >= 0:
        state.restart_session(group.members[request.member_id], now)
    expire_ms = -1
    if request.retention_ms >= 0:
        expire_ms = min(now.wall_ms + request.retention_ms, TIMESTAMP_MAX)
    metadata_bytes_max = state.config.offset_metadata_bytes_max
    errors: list[ErrorCode] = []
    for error, (topic, partition, offset, leader_epoch, metadata) in zip(
        refused, request.offsets, strict=True
    ):
        if error is not ErrorCode.NONE:
            errors.append(error)
            continue
        # Kafka counts characters here, too.
        if len(metadata) > metadata_bytes_max:
            errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            continue
        value = CommittedOffset(offset, leader_epoch, metadata, now.wall_ms, expire_ms)
        state.apply(OffsetRecord(request.key, topic, partition, value))
        errors.append(ErrorCode.NONE)
    if group is not None:
        state.forget_if_unused(group, now.wall_ms)
    return errors


def _validate_classic(
    state: ShardState, group: ClassicGroup | None, request: CommitRequest
) -> ErrorCode:
    """NONE if this client may commit for the classic group now, otherwise the error."""
    if group is None:
        if request.generation >= 0:
            if request.knows_member_epochs:
                return ErrorCode.GROUP_ID_NOT_FOUND
            return ErrorCode.ILLEGAL_GENERATION
        refused = state.refuses_group(request.key.instance)
        return ErrorCode.POLICY_VIOLATION if refused else ErrorCode.NONE
    if request.generation < 0 and group.state is EMPTY:
        return ErrorCode.NONE
    if request.generation < 0 and not request.member_id and request.instance_id is None:
        # A client that is not a member must not change the offsets of a group with members.
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.validate(request.member_id, request.instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is COMPLETING_REBALANCE:
        # The member has no assignment in this generation yet, so it has nothing to commit.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def validate_size(
    state: ShardState, request: CommitRequest, producer: Producer | None = None
) -> ErrorCode:
    """Refuse records that do not fit into one batch, and offsets above a limit.

    `producer` is the one whose transaction they belong to.
    """
    config = state.config
    overhead = _OFFSET_OVERHEAD_BYTES + text_size(request.key.group_id)
    size = sum(
        overhead + text_size(o.topic) + text_size(o.metadata)
        for o in request.offsets
        if len(o.metadata) <= config.offset_metadata_bytes_max
    )
    if size > config.operation_bytes_max or not _has_places(state, request, producer):
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    return ErrorCode.NONE


def _has_places(state: ShardState, request: CommitRequest, producer: Producer | None) -> bool:
    """Whether the offsets that are not there yet fit into the group and the shard.

    A limit that is reached keeps nobody from going on with what there is.
    """
    key, durable = request.key, state.durable
    kept = len(durable.offsets.get(key, ())) + len(durable.pending.slots(key))

    def fit(count: int) -> bool:
        of_group = kept + count <= state.config.offsets_per_group_max
        return of_group and state.may_commit(key.instance, count)

    if fit(len(request.offsets)):
        return True
    slots = {(o.topic, o.partition) for o in request.offsets}
    if producer is None:
        slots.difference_update(durable.offsets.get(key, ()))
    else:
        pending, producer_id = durable.pending, producer.producer_id
        slots = {slot for slot in slots if not pending.is_set(producer_id, key, slot)}
    return not slots or fit(len(slots))


def committed_offset(
    state: ShardState, key: GroupKey, topic: str, partition: int
) -> CommittedOffset | None:
    """The committed offset of one partition, or None."""
    offsets = state.durable.offsets.get(key)
    return None if offsets is None else offsets.get((topic, partition))


def committed_by_topic(
    state: ShardState, key: GroupKey
) -> dict[str, list[tuple[int, CommittedOffset]]]:
    """All committed offsets of a group, by topic."""
    topics: dict[str, list[tuple[int, CommittedOffset]]] = {}
    for (topic, partition), value in state.durable.offsets.get(key, {}).items():
        topics.setdefault(topic, []).append((partition, value))
    return topics


def delete_offsets(
    state: ShardState, key: GroupKey, slots: Iterable[tuple[str, int]], now: Moment
) -> tuple[ErrorCode, list[ErrorCode]]:
    """Delete single offsets; return the call's error and one error per slot."""
    group, consumer = state.groups.get(key), state.durable.consumer_groups.get(key)
    if consumer is not None:
        topics: frozenset[str] | None = consumer.subscribed_topics()
    elif group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND, []
    elif group.state is not EMPTY and group.protocol_type != "consumer":
        # Only the consumer protocol's metadata says which topics the group reads.
        return ErrorCode.NON_EMPTY_GROUP, []
    else:
        topics = subscribed_topics(group)
    errors: list[ErrorCode] = []
    for topic, partition in slots:
        if is_subscribed(topics, topic):
            errors.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
            continue
        if committed_offset(state, key, topic, partition) is not None or (
            state.durable.pending.is_unstable(key, (topic, partition))
        ):
            state.apply(OffsetRecord(key, topic, partition, None))
        errors.append(ErrorCode.NONE)
    if group is not None:
        state.forget_if_unused(group, now.wall_ms)
    return ErrorCode.NONE, errors


def delete_all_offsets(state: ShardState, key: GroupKey) -> None:
    """Delete every offset of a group, also those that are pending."""
    slots = dict.fromkeys([*state.durable.offsets.get(key, ()), *state.durable.pending.slots(key)])
    for topic, partition in slots:
        state.apply(OffsetRecord(key, topic, partition, None))


def delete_topics(state: ShardState, key: GroupKey, topics: frozenset[str], now: Moment) -> None:
    """Delete the group's offsets of topics that no longer exist."""
    known = [*state.durable.offsets.get(key, ()), *state.durable.pending.slots(key)]
    slots = [slot for slot in dict.fromkeys(known) if slot[0] in topics]
    for topic, partition in slots:
        state.apply(OffsetRecord(key, topic, partition, None))
    group = state.groups.get(key)
    if group is not None:
        state.forget_if_unused(group, now.wall_ms)


def expire_offsets(state: ShardState, group: ClassicGroup, now: Moment) -> None:
    """Delete expired offsets; delete the group, too, if it is empty and has no offsets left."""
    if group.state is DEAD:
        return
    topics = subscribed_topics(group)
    pending = state.durable.pending
    everything_expired = group.key not in pending
    for (topic, partition), value in list(state.durable.offsets.get(group.key, {}).items()):
        if pending.is_unstable(group.key, (topic, partition)):
            everything_expired = False
        elif not is_subscribed(topics, topic) and _is_expired(state, group, value, now.wall_ms):
            state.apply(OffsetRecord(group.key, topic, partition, None))
        else:
            everything_expired = False
    if everything_expired and group.state is EMPTY and not group.pending_members:
        if group.key in state.durable.images:
            state.apply(GroupRecord(group.key, None))
        state.kill(group, now.wall_ms)


def _is_expired(
    state: ShardState, group: ClassicGroup, value: CommittedOffset, wall_ms: int
) -> bool:
    """Whether the offset's retention time has passed, given the group's state."""
    if group.protocol_type is not None and group.state is EMPTY:
        since_ms = group.state_since_ms if group.state_since_ms >= 0 else value.commit_ms
    elif group.protocol_type is None or (
        group.protocol_type == "consumer" and group.state is STABLE
    ):
        since_ms = value.commit_ms
    else:
        return False
    if value.expire_ms >= 0:
        return wall_ms >= value.expire_ms
    return wall_ms - since_ms >= state.config.offsets_retention_ms
