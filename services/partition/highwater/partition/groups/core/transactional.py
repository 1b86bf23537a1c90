"""TxnOffsetCommit v0-5 and the markers that end transactions (KIP-98, KIP-447).

* Offsets of an open transaction are pending: OffsetFetch with require_stable (v7) answers
  UNSTABLE_OFFSET_COMMIT for them, and without it the offset that was committed before.
* v3 on, the group's generation (or the epoch of a consumer group's member) and member fence former
  members; without them, or before v3, any producer may commit for the group.
* A group with pending offsets does not expire.

Kafka: OffsetMetadataManager.java (`commitTransactionalOffset`, `replayEndTransactionMarker`).
"""

from highwater.kafka.error_codes import ErrorCode
from highwater.model.transactions import TransactionMarker
from highwater.partition.coordinator.core.values import Moment, Producer
from highwater.partition.groups.core import consumer_offsets, offsets, rebalance
from highwater.partition.groups.core.consumer_offsets import TopicIds
from highwater.partition.groups.core.durable import (
    CommittedOffset,
    OffsetRecord,
    PendingOffset,
    TransactionEnd,
)
from highwater.partition.groups.core.group import ClassicGroup
from highwater.partition.groups.core.shard_state import ShardState
from highwater.partition.groups.core.state import DEAD, EMPTY
from highwater.partition.groups.core.values import CommitRequest


def commit_pending(
    state: ShardState,
    request: CommitRequest,
    producer: Producer,
    topic_ids: TopicIds,
    now: Moment,
) -> list[ErrorCode]:
    """Note the offsets until the marker; return one error per entry of `request.offsets`."""
    group, consumer = state.groups.get(request.key), state.durable.consumer_groups.get(request.key)
    if consumer is None:
        error = _validate(state, group, request)
        if error is not ErrorCode.NONE:
            return [error] * len(request.offsets)
        refused = [ErrorCode.NONE] * len(request.offsets)
    else:
        refused = consumer_offsets.validate_pending(consumer, request, topic_ids)
        if ErrorCode.NONE not in refused:
            return refused
    error = offsets.validate_size(state, request, producer)
    if error is not ErrorCode.NONE:
        return [error] * len(request.offsets)
    if group is None:
        if consumer is None:
            group = rebalance.create_group(state, request.key, now.wall_ms)
    elif request.generation >= 0 and request.member_id:
        state.restart_session(group.members[request.member_id], now)
    metadata_max = state.config.offset_metadata_bytes_max
    errors: list[ErrorCode] = []
    for error, (topic, partition, offset, leader_epoch, metadata) in zip(
        refused, request.offsets, strict=True
    ):
        if error is not ErrorCode.NONE:
            errors.append(error)
            continue
        if len(metadata) > metadata_max:
            errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            continue
        value = CommittedOffset(offset, leader_epoch, metadata, now.wall_ms)
        state.apply(PendingOffset(producer, OffsetRecord(request.key, topic, partition, value)))
        errors.append(ErrorCode.NONE)
    if group is not None:
        state.forget_if_unused(group, now.wall_ms)
    return errors


def _validate(state: ShardState, group: ClassicGroup | None, request: CommitRequest) -> ErrorCode:
    """NONE if the producer may commit for the group now (`ClassicGroup.validateOffsetCommit`)."""
    if group is None:
        if request.generation >= 0:
            return ErrorCode.ILLEGAL_GENERATION
        refused = state.refuses_group(request.key.instance)
        return ErrorCode.POLICY_VIOLATION if refused else ErrorCode.NONE
    if group.state is DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if request.generation < 0 and group.state is EMPTY:
        return ErrorCode.NONE
    if request.generation < 0 and not request.member_id and request.instance_id is None:
        return ErrorCode.NONE
    error = group.validate(request.member_id, request.instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE


def end_transaction(state: ShardState, marker: TransactionMarker, now: Moment) -> None:
    """The marker's producer has committed or aborted; harmless if it has nothing pending."""
    groups = state.durable.pending.groups_of(marker.producer_id)
    state.apply(TransactionEnd(marker))
    for key in groups:
        group = state.groups.get(key)
        if group is not None:
            state.forget_if_unused(group, now.wall_ms)
