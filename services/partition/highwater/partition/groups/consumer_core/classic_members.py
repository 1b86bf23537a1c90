"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Such a member embeds the consumer protocol. JoinGroup is answered at once, without a leader: the
generation is the member's epoch, and SyncGroup brings what it holds. Heartbeats tell it to join
again when there is something to give up or to get. Kafka: `classicGroup*ToConsumerGroup` of
GroupMetadataManager.java.
"""

from functools import partial

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.consumer.assignment import pairs_of
from highwater.partition.groups.consumer.embedded import (
    PROTOCOL_TYPE,
    MalformedProtocolError,
    Subscription,
    by_id,
    read_subscription,
    write_assignment,
)
from highwater.partition.groups.consumer.group import ConsumerGroup
from highwater.partition.groups.consumer.member import (
    ClassicMember,
    ConsumerMember,
    MemberMetadata,
    MemberState,
)
from highwater.partition.groups.consumer.sizes import member_size
from highwater.partition.groups.consumer_core import (
    assigning,
    downgrade,
    fencing,
    subscribing,
    targets,
)
from highwater.partition.groups.consumer_core.state import ConsumerState, Refusal
from highwater.partition.groups.consumer_core.timers import Deadline
from highwater.partition.groups.consumer_core.validation import check_memory
from highwater.partition.groups.core.values import (
    GroupKey,
    JoinRequest,
    JoinResponse,
    LeavingMember,
    SyncRequest,
    SyncResponse,
)


def join_group(
    state: ConsumerState, group: ConsumerGroup, request: JoinRequest, now: Moment
) -> JoinResponse:
    """The answer, to be sent when the records are committed. Raises Refusal."""
    subscription = _check_join(state, group, request)
    member_id = request.member_id or state.shard.new_id()
    if not request.member_id and request.instance_id is None and request.requires_known_member_id:
        return JoinResponse(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
    key, static = request.key, group.static_member(request.instance_id)
    before = group.members.get(member_id) or ConsumerMember(member_id=member_id)
    _check_room(state, key, group, member_id, _metadata(request, subscription, before))
    downgrades = False
    if request.instance_id is not None and request.member_id:
        before = fencing.known_static_member(group, request.member_id, request.instance_id)
    elif static is not None:
        downgrades = static.metadata.classic is None and downgrade.may_follow(
            state, key, group, [static.member_id], joining=_classic(request)
        )
        before = subscribing.replace_static(state, key, group, static, member_id)
    metadata = _metadata(request, subscription, before)
    changed = subscribing.update(state, key, group, before, metadata, now)
    if not downgrades:
        targets.assign(state, key, group, now)
    if not downgrades or not changed:
        assigning.reconcile(
            state,
            key,
            group,
            group.members[member_id],
            owned=by_id(subscription.owned, state.topics, key.instance),
            subscription_changed=changed,
            now=now,
        )
    member = group.members[member_id]
    if downgrades:
        # Without its target assignment, which may still be made, the group has nothing to go on with.
        rebalances = changed or group.epoch > group.target_epoch
        downgrade.to_classic(state, key, group, rebalances=rebalances, now=now)
    else:
        _await_sync(state, key, member, now)
    return JoinResponse(
        error=ErrorCode.NONE,
        member_id=member_id,
        generation=member.current.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol=request.protocols[0][0],
    )


def _await_sync(state: ConsumerState, key: GroupKey, member: ConsumerMember, now: Moment) -> None:
    state.timers.cancel(key, member.member_id, Deadline.JOIN)
    fencing.restart_session(state, key, member, now)
    _set(state, key, member, Deadline.SYNC, now)


def _check_join(state: ConsumerState, group: ConsumerGroup, request: JoinRequest) -> Subscription:
    if not state.config.allows_session(request.session_timeout_ms):
        raise Refusal(
            ErrorCode.INVALID_SESSION_TIMEOUT,
            f"The session timeout of {request.session_timeout_ms} ms is not allowed.",
        )
    limit = state.config.consumer_group_size_max
    if len(group.members) >= limit and request.member_id not in group.members:
        raise Refusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {limit} members.",
        )
    try:
        if not _supports(group, request):
            raise MalformedProtocolError("no protocol in common")
        return read_subscription(request.protocols[0][1])
    except MalformedProtocolError as error:
        raise Refusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Member {request.member_id}'s protocols are not supported.",
        ) from error


def _check_room(
    state: ConsumerState,
    key: GroupKey,
    group: ConsumerGroup,
    member_id: str,
    wanted: MemberMetadata,
) -> None:
    config = state.config
    if member_size(wanted) > config.list_bytes_max or (
        member_id not in group.members and not state.shard.may_have_member(key.instance)
    ):
        raise Refusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED, "There is no room for the member or its metadata."
        )
    check_memory(state, key, member_id, wanted)


def _supports(group: ConsumerGroup, request: JoinRequest) -> bool:
    """Whether all members of the classic protocol have one of the protocols in common."""
    if request.protocol_type != PROTOCOL_TYPE or not request.protocols:
        return False
    common = {name for name, _ in request.protocols}
    for member in group.classic_members():
        assert member.metadata.classic is not None
        common &= {name for name, _ in member.metadata.classic.protocols}
    return bool(common)


def _metadata(
    request: JoinRequest, subscription: Subscription, before: ConsumerMember
) -> MemberMetadata:
    old = before.metadata
    return MemberMetadata(
        instance_id=request.instance_id or old.instance_id,
        rack_id=subscription.rack_id or old.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topic_names=subscription.topics,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        assignor=old.assignor,
        classic=_classic(request),
    )


def _classic(request: JoinRequest) -> ClassicMember:
    return ClassicMember(session_timeout_ms=request.session_timeout_ms, protocols=request.protocols)


def sync_group(
    state: ConsumerState, group: ConsumerGroup, request: SyncRequest, now: Moment
) -> SyncResponse:
    """What the member holds, to be sent when it is committed. Raises Refusal."""
    key = request.key
    member, classic = _classic_member(group, key, request.member_id, request.instance_id)
    _check_generation(member, request.generation)
    name, metadata = classic.protocols[0]
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol not in (None, name):
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The protocol is another one.")
    if (
        targets.epoch_within_reach(state, key, group, now) > member.current.epoch
        and member.current.state is not MemberState.UNREVOKED_PARTITIONS
    ):
        _ask_to_join(state, key, member, now)
        raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS, "The member has to join again.")
    state.timers.cancel(key, member.member_id, Deadline.SYNC)
    fencing.restart_session(state, key, member, now)
    version = read_subscription(metadata).version
    return SyncResponse(
        error=ErrorCode.NONE,
        protocol_type=request.protocol_type,
        protocol=request.protocol,
        assignment=write_assignment(member.current.assigned, state.topics, key.instance, version),
    )


def heartbeat(
    state: ConsumerState,
    key: GroupKey,
    group: ConsumerGroup,
    generation: int,
    member_id: str,
    instance_id: str | None,
    now: Moment,
) -> ErrorCode:
    """REBALANCE_IN_PROGRESS makes the member join again. Raises Refusal."""
    member, _ = _classic_member(group, key, member_id, instance_id)
    _check_generation(member, generation)
    fencing.restart_session(state, key, member, now)
    current = member.current
    if (
        current.epoch < targets.epoch_within_reach(state, key, group, now)
        or current.state is MemberState.UNREVOKED_PARTITIONS
        or (current.state is MemberState.UNRELEASED_PARTITIONS and not _waits(group, member))
    ):
        _ask_to_join(state, key, member, now)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _waits(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether other members still hold some of the member's target (`waitingOnUnreleasedPartition`)."""
    return any(
        group.owners.get(pair, member.member_id) != member.member_id
        for pair in pairs_of(group.target(member.member_id))
    )


def leave_group(
    state: ConsumerState,
    key: GroupKey,
    group: ConsumerGroup,
    leaving: tuple[LeavingMember, ...],
    now: Moment,
) -> list[ErrorCode]:
    """Remove members, of either protocol; one error per member."""
    errors = []
    leavers: dict[str, None] = {}
    for identity in leaving:
        try:
            if identity.instance_id is None:
                member = fencing.known_member(group, key, identity.member_id)
            else:
                member = fencing.known_static_member(
                    group, identity.member_id, identity.instance_id, by_instance=True
                )
        except Refusal as refusal:
            errors.append(refusal.code)
        else:
            errors.append(ErrorCode.NONE)
            leavers[member.member_id] = None
    fencing.fence(state, key, group, list(leavers), now)
    return errors


def _classic_member(
    group: ConsumerGroup, key: GroupKey, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicMember]:
    if instance_id is None:
        member = fencing.known_member(group, key, member_id)
    else:
        member = fencing.known_static_member(group, member_id, instance_id)
    if member.metadata.classic is None:
        raise Refusal(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol."
        )
    return member, member.metadata.classic


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if member.current.epoch != generation:
        raise Refusal(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {generation} is not equal to the member epoch "
            f"{member.current.epoch} of member {member.member_id}.",
        )


def _ask_to_join(state: ConsumerState, key: GroupKey, member: ConsumerMember, now: Moment) -> None:
    """The member has its rebalance timeout to join again; asking again does not prolong it."""
    if not state.timers.is_set(key, member.member_id, Deadline.JOIN):
        _set(state, key, member, Deadline.JOIN, now)


def _set(
    state: ConsumerState, key: GroupKey, member: ConsumerMember, which: Deadline, now: Moment
) -> None:
    deadline_ms = now.now_ms + member.metadata.rebalance_timeout_ms
    action = partial(fencing.expire, state, key, member.member_id)
    state.timers.set(key, member.member_id, which, deadline_ms, action)
