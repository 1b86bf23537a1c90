"""Finding the group of a member, and making a consumer group of a classic one that it joins.

Kafka: `getOrMaybeCreateConsumerGroup`, `validateOnlineUpgrade`, `convertToConsumerGroup` of
GroupMetadataManager.java, `ConsumerGroup.fromClassicGroup`.
"""

from collections.abc import Iterator
from typing import NoReturn

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE, TopicId
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.consumer.assignment import NOTHING, assignment_of, pairs_of
from highwater.partition.groups.consumer.durable import (
    CurrentRecord,
    GroupEpoch,
    GroupEpochRecord,
    MemberRecord,
    TargetEpoch,
    TargetEpochRecord,
    TargetRecord,
)
from highwater.partition.groups.consumer.embedded import (
    PROTOCOL_TYPE,
    MalformedProtocolError,
    read_assignment,
    read_subscription,
)
from highwater.partition.groups.consumer.group import ConsumerGroup
from highwater.partition.groups.consumer.member import (
    ClassicMember,
    ConsumerMember,
    CurrentAssignment,
    MemberMetadata,
)
from highwater.partition.groups.consumer.requests import HeartbeatRequest
from highwater.partition.groups.consumer.sizes import assignment_size, member_memory, member_size
from highwater.partition.groups.consumer_core import fencing
from highwater.partition.groups.consumer_core.state import ConsumerState, Refusal
from highwater.partition.groups.core.durable import GroupRecord
from highwater.partition.groups.core.group import ClassicGroup, Member
from highwater.partition.groups.core.group_limit import COORDINATOR_FULL
from highwater.partition.groups.core.state import EMPTY
from highwater.partition.groups.core.values import GroupKey


def known_group(state: ConsumerState, key: GroupKey) -> ConsumerGroup:
    """The consumer group; raises Refusal if there is none of this id."""
    group = state.groups.get(key)
    if group is not None:
        return group
    what = "is not a consumer group" if key in state.shard.groups else "not found"
    prefix = "Group" if key in state.shard.groups else "Consumer group"
    raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"{prefix} {key.group_id} {what}.")


def check_room(state: ConsumerState, request: HeartbeatRequest) -> None:
    """Raise Refusal if the member cannot be taken into its group, or the group not converted."""
    config, key = state.config, request.key
    group, classic = state.groups.get(key), state.shard.groups.get(key)
    members = set() if group is None else set(group.members)
    if classic is not None and classic.state is not EMPTY:
        _check_upgrade(state, classic)
        members = set(classic.members)
    limit = config.consumer_group_size_max
    if len(members) >= limit and request.member_id not in members:
        raise Refusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {limit} members.",
        )
    if request.member_id not in members and not state.shard.may_have_member(key.instance):
        raise Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, COORDINATOR_FULL)
    if group is None and classic is None:
        refused = state.shard.refuses_group(key.instance)
        if refused:
            raise Refusal(ErrorCode.POLICY_VIOLATION, refused)


def group_to_join(state: ConsumerState, key: GroupKey, now: Moment) -> ConsumerGroup:
    """The group, after `check_room`. The caller at once writes a record of a new one."""
    classic = state.shard.groups.get(key)
    if classic is not None and classic.state is not EMPTY:
        _to_consumer(state, classic, now)
    elif classic is not None:
        # An empty classic group gives way; its offsets stay.
        _forget_classic(state, classic, now)
    return state.shard.durable.consumer_group(key)


def _forget_classic(state: ConsumerState, classic: ClassicGroup, now: Moment) -> None:
    """Members that wait are sent back to JoinGroup."""
    key = classic.key
    if key in state.shard.durable.images:
        state.shard.apply(GroupRecord(key, None))
    state.shard.dissolve(classic, ErrorCode.REBALANCE_IN_PROGRESS, now.wall_ms)


def _check_upgrade(state: ConsumerState, classic: ClassicGroup) -> None:
    if not state.config.migration_policy.upgrades:
        _refuse(classic, "online upgrade is disabled")
    if classic.protocol_type != PROTOCOL_TYPE:
        _refuse(classic, "the group does not use the consumer embedded protocol")
    if len(classic.members) > state.config.consumer_group_size_max:
        _refuse(classic, "the group size exceeds the consumer group maximum size")
    grows = 0
    try:
        for member in _members(state, classic):
            grows += member_memory(member.metadata)
            grows -= classic.members[member.member_id].metadata_bytes
            sizes = member_size(member.metadata), assignment_size(member.current.assigned)
            if max(sizes) > state.config.list_bytes_max:
                _refuse(classic, "the metadata of a member is too large")
    except MalformedProtocolError:
        _refuse(classic, "the embedded consumer protocol is malformed")
    instance = classic.key.instance
    if instance != DEFAULT_INSTANCE and not state.shard.may_grow(instance, grows):
        # Many small members become several times as large; in its own shards that may be.
        raise Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, COORDINATOR_FULL)


def _refuse(classic: ClassicGroup, why: str) -> NoReturn:
    raise Refusal(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.key.group_id} to consumer group because {why}.",
    )


def _to_consumer(state: ConsumerState, classic: ClassicGroup, now: Moment) -> None:
    """Write the classic group's members and assignments as a consumer group's.

    Its epochs are the generation. The member that joins begins the next one, in which members of
    the classic protocol are told to join again.
    """
    key, generation = classic.key, classic.generation
    members = list(_members(state, classic))
    _forget_classic(state, classic, now)
    for member in members:
        state.apply(MemberRecord(key, member.member_id, member.metadata))
    state.apply(GroupEpochRecord(key, GroupEpoch(generation, 0)))
    for member in members:
        state.apply(TargetRecord(key, member.member_id, member.current.assigned))
    state.apply(TargetEpochRecord(key, TargetEpoch(generation, 0)))
    for member in members:
        state.apply(CurrentRecord(key, member.member_id, member.current))
        fencing.restart_session(state, key, member, now)


def _members(state: ConsumerState, classic: ClassicGroup) -> Iterator[ConsumerMember]:
    """The group's members as those of a consumer group.

    If the assignor at the clients gave a partition to several of them, the first one has it. Raises
    MalformedProtocolError, or Refusal if that assignor keeps data in the assignment.
    """
    taken: set[tuple[TopicId, int]] = set()
    instance = classic.key.instance
    image = state.shard.durable.images.get(classic.key)
    assignments = {} if image is None else {m.member_id: m.assignment for m in image.members}
    for member in classic.members.values():
        _, metadata = next(iter(member.protocols.items()))
        subscription = read_subscription(metadata)
        data = assignments.get(member.member_id, b"")
        assigned, has_user_data = read_assignment(data, state.topics, instance)
        if has_user_data:
            _refuse(
                classic,
                "an unsupported custom assignor is in use. Please refer to the documentation or "
                "switch to a default assignor before re-attempting the upgrade",
            )
        assigned = assignment_of(pair for pair in pairs_of(assigned) if pair not in taken)
        taken.update(pairs_of(assigned))
        yield ConsumerMember(
            member_id=member.member_id,
            metadata=_metadata(member, subscription.topics, subscription.rack_id),
            current=CurrentAssignment(
                epoch=classic.generation,
                previous_epoch=classic.generation,
                assigned=assigned,
                revoking=NOTHING,
                since=dict.fromkeys(pairs_of(assigned), classic.generation),
            ),
        )


def _metadata(member: Member, topics: frozenset[str], rack_id: str | None) -> MemberMetadata:
    return MemberMetadata(
        instance_id=member.instance_id,
        rack_id=rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=topics,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMember(
            session_timeout_ms=member.session_timeout_ms,
            protocols=tuple(member.protocols.items()),
        ),
    )
