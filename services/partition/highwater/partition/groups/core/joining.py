"""JoinGroup v0-9.

* v0: the session timeout is also the rebalance timeout (the handler fills it in).
* v4: a new dynamic member gets MEMBER_ID_REQUIRED with its id, and joins again (KIP-394).
* v5: a static member (KIP-345) that restarts gets a new member id under the same instance id,
  without a rebalance as long as the chosen protocol stays the same.
* v9: `skip_assignment` tells a returning static leader not to assign (KIP-814). Before v9 the
  response names the leader's old id, so that this member does not take itself for the leader.

Kafka: `classicGroupJoin*` of GroupMetadataManager.java. Deviation: when a member sends a second
JoinGroup, the first one is answered; Kafka never answers it.
"""

from dataclasses import replace
from functools import partial

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.core import rebalance
from highwater.partition.groups.core.durable import GroupRecord, image_size
from highwater.partition.groups.core.group import ClassicGroup, Member
from highwater.partition.groups.core.shard_state import ShardState
from highwater.partition.groups.core.state import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from highwater.partition.groups.core.values import (
    JoinedMember,
    JoinRequest,
    JoinResponse,
    SyncResponse,
)

_PREFIX_MAX = 255
"""Characters of the client or instance id in a member id, which must fit into a Kafka string."""


def join_group(state: ShardState, request: JoinRequest, token: object, now: Moment) -> None:
    """Answer at once, or park `token` until the rebalance completes."""
    config = state.config
    if not request.key.group_id:
        return _refuse(state, token, ErrorCode.INVALID_GROUP_ID, request.member_id)
    if not config.allows_session(request.session_timeout_ms):
        return _refuse(state, token, ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
    if not state.has_room(request):
        return _refuse(state, token, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    if len(state.parked) >= config.parked_max:
        return _refuse(state, token, ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id)
    group = state.groups.get(request.key)
    if group is None:
        if request.member_id:
            return _refuse(state, token, ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
        if state.refuses_group(request.key.instance):
            return _refuse(state, token, ErrorCode.POLICY_VIOLATION, "")
        group = rebalance.create_group(state, request.key, now.wall_ms)
    if len({name for name, _ in request.protocols}) != len(request.protocols):
        first = dict(reversed(request.protocols))
        unique = dict.fromkeys(name for name, _ in request.protocols)
        request = replace(request, protocols=tuple((name, first[name]) for name in unique))
    if not _accepts(state, group, request.member_id):
        state.remove_member(group, request.member_id, ErrorCode.GROUP_MAX_SIZE_REACHED)
        state.remove_pending_member(group, request.member_id)  # Nobody waits for it any more.
        _refuse(state, token, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        rebalance.maybe_complete_join(state, group, now)
    elif not group.supports(request.protocol_type, request.protocols):
        _refuse(state, token, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    elif request.member_id:
        _join_known(state, group, request, token, now)
    else:
        _join_unknown(state, group, request, token, now)
    state.forget_if_unused(group, now.wall_ms)
    return None


def _refuse(state: ShardState, token: object, error: ErrorCode, member_id: str) -> None:
    state.reply(token, JoinResponse(error=error, member_id=member_id))


def _accepts(state: ShardState, group: ClassicGroup, member_id: str) -> bool:
    """Whether the group has room (group.max.size).

    During a rebalance only members that wait in JoinGroup count. So if the limit was lowered,
    the last members to rejoin are refused (KIP-389).
    """
    limit = state.config.group_size_max
    if group.state is EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state is PREPARING_REBALANCE:
        return (member is not None and member.awaiting_join) or group.awaiting_join_count < limit
    return member is not None or len(group.members) < limit


def _join_unknown(
    state: ShardState, group: ClassicGroup, request: JoinRequest, token: object, now: Moment
) -> None:
    """Handle a member without an id: a new one, or a static member that has restarted."""
    if request.instance_id is not None:
        member_id = f"{request.instance_id[:_PREFIX_MAX]}-{state.new_id()}"
        if request.instance_id in group.static_members:
            _replace_static_member(state, group, request, member_id, token, now)
        else:
            _add_member(state, group, request, member_id, token, now)
        return
    member_id = f"{request.client_id[:_PREFIX_MAX]}-{state.new_id()}"
    if not request.requires_known_member_id:
        _add_member(state, group, request, member_id, token, now)
        return
    if len(group.pending_members) >= state.config.pending_members_max:
        _refuse(state, token, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        return
    timer = state.new_timer(partial(rebalance.expire_pending_member, state, group, member_id))
    state.add_pending_member(group, member_id, timer, now.now_ms + request.session_timeout_ms)
    _refuse(state, token, ErrorCode.MEMBER_ID_REQUIRED, member_id)


def _join_known(
    state: ShardState, group: ClassicGroup, request: JoinRequest, token: object, now: Moment
) -> None:
    """Handle a member with an id: one that joins for the first time, or joins again."""
    if request.member_id in group.pending_members:
        if request.instance_id is not None:
            # Only dynamic members are given ids this way; a static member made this one up.
            _refuse(state, token, ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            return
        state.remove_pending_member(group, request.member_id)
        _add_member(state, group, request, request.member_id, token, now)
        return
    error = group.validate(request.member_id, request.instance_id)
    if error is not ErrorCode.NONE:
        _refuse(state, token, error, request.member_id)
        return
    member = group.members[request.member_id]
    leads = group.leader == member.member_id
    unchanged = member.offers(request.protocols)
    if group.state is COMPLETING_REBALANCE and unchanged:
        # It joined this generation already, and the response was lost.
        _tell_generation(state, group, member, token, with_members=leads)
    elif group.state is STABLE and unchanged and not leads:
        _tell_generation(state, group, member, token, with_members=False)
    else:
        # The leader of a stable group asks for a rebalance: its topics may have changed.
        state.update_member(group, member, request)
        state.park_join(group, member, token)
        rebalance.rebalance_or_complete_join(state, group, now)


def _tell_generation(
    state: ShardState, group: ClassicGroup, member: Member, token: object, *, with_members: bool
) -> None:
    """Answer with the present generation; no rebalance."""
    members: tuple[JoinedMember, ...] = group.joined_members() if with_members else ()
    state.reply(
        token,
        JoinResponse(
            error=ErrorCode.NONE,
            member_id=member.member_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=group.leader or "",
            members=members,
        ),
    )


def _add_member(
    state: ShardState,
    group: ClassicGroup,
    request: JoinRequest,
    member_id: str,
    token: object,
    now: Moment,
) -> None:
    member = Member(
        member_id=member_id,
        instance_id=request.instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=request.protocols,
        session=state.new_timer(lambda later: rebalance.expire_member(state, group, member, later)),
    )
    member.is_new = True
    member.knows_its_id = request.member_id == member_id
    if group.state is PREPARING_REBALANCE and group.previous_state is EMPTY:
        group.new_member_added = True
    state.add_member(group, member, request.protocol_type)
    # A new member cannot send heartbeats while its JoinGroup waits, so it has no session
    # timeout yet. This longer one removes clients that gave up and joined under another id.
    state.timers.set(member.session, now.now_ms + state.config.new_member_join_timeout_ms)
    state.park_join(group, member, token)
    rebalance.rebalance_or_complete_join(state, group, now)


def _replace_static_member(
    state: ShardState,
    group: ClassicGroup,
    request: JoinRequest,
    member_id: str,
    token: object,
    now: Moment,
) -> None:
    """Give a static member that has restarted a new id, and fence the client with the old one."""
    assert request.instance_id is not None
    old_leader = group.leader
    old_id = group.static_members[request.instance_id]
    member = group.members[old_id]
    state.answer_join(
        group, member, JoinResponse(error=ErrorCode.FENCED_INSTANCE_ID, member_id=old_id)
    )
    state.answer_sync(member, SyncResponse(error=ErrorCode.FENCED_INSTANCE_ID), after_commit=False)
    group.rename(member, member_id)
    state.update_member(group, member, request)
    state.restart_session(member, now)
    image = None
    if group.state is STABLE and group.select_protocol() == group.protocol:
        stored = state.durable.images[group.key]
        assignment = {m.member_id: m.assignment for m in stored.members}
        assignment[member_id] = assignment.pop(old_id, b"")
        image = group.image(assignment, now.wall_ms)
    if image is None or image_size(image) > state.config.operation_bytes_max:
        state.park_join(group, member, token)
        # In COMPLETING_REBALANCE the leader may just now assign to the old id, so only another
        # rebalance gives the new id an assignment.
        rebalance.rebalance_or_complete_join(state, group, now)
        return
    state.apply(GroupRecord(group.key, image))
    leads = group.leader == member_id
    skips = leads and request.supports_skip_assignment
    leader = group.leader if request.supports_skip_assignment else old_leader
    state.reply(
        token,
        JoinResponse(
            error=ErrorCode.NONE,
            member_id=member_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=leader or "",
            skip_assignment=skips,
            members=group.joined_members() if skips else (),
        ),
        after_commit=True,
    )
