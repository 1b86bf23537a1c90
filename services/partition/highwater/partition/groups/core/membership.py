"""Heartbeat v0-4, LeaveGroup v0-5, and clients that disconnect while their call is parked.

Heartbeat is the most frequent call of a coordinator (50 000 members every 3 s), so it only stores
a number. Kafka: `classicGroupHeartbeat`, `classicGroupLeave`. Deviation: Kafka does not notice
when a client disconnects while its JoinGroup waits. We remove such a member at once if it is new
and does not know its id yet.
"""

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.core import rebalance
from highwater.partition.groups.core.group import ClassicGroup
from highwater.partition.groups.core.shard_state import ShardState
from highwater.partition.groups.core.state import (
    COMPLETING_REBALANCE,
    PREPARING_REBALANCE,
    STABLE,
)
from highwater.partition.groups.core.values import GroupKey, LeavingMember


def heartbeat(
    state: ShardState,
    key: GroupKey,
    generation: int,
    member_id: str,
    instance_id: str | None,
    now_ms: int,
) -> ErrorCode:
    """Restart the member's session; REBALANCE_IN_PROGRESS makes the member join again."""
    group = state.groups.get(key)
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID if key.group_id else ErrorCode.INVALID_GROUP_ID
    if instance_id is not None:
        error = group.validate(member_id, instance_id)
        if error is not ErrorCode.NONE:
            return error
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    state.timers.set(member.session, now_ms + member.session_timeout_ms)
    if group.state is PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave_group(
    state: ShardState, key: GroupKey, leaving: tuple[LeavingMember, ...], now: Moment
) -> tuple[ErrorCode, list[ErrorCode]]:
    """Remove the members; return the call's error and one error per member."""
    if not key.group_id:
        return ErrorCode.INVALID_GROUP_ID, []
    group = state.groups.get(key)
    if group is None:
        return ErrorCode.NONE, [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
    errors = [_leave(state, group, identity) for identity in leaving]
    if ErrorCode.NONE in errors:
        if group.state in (STABLE, COMPLETING_REBALANCE):
            rebalance.prepare_rebalance(state, group, now)
        else:
            rebalance.maybe_complete_join(state, group, now)
        state.forget_if_unused(group, now.wall_ms)
    return ErrorCode.NONE, errors


def _leave(state: ShardState, group: ClassicGroup, identity: LeavingMember) -> ErrorCode:
    """Remove one member; the caller starts the rebalance."""
    member_id = identity.member_id
    if not member_id:
        # An admin client removes a static member by its instance id alone.
        known = group.static_members.get(identity.instance_id or "")
        if identity.instance_id is None or known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = known
    elif state.remove_pending_member(group, member_id):
        return ErrorCode.NONE
    else:
        error = group.validate(member_id, identity.instance_id)
        if error is not ErrorCode.NONE:
            return error
    state.remove_member(group, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    return ErrorCode.NONE


def forget_call(state: ShardState, token: object, now: Moment) -> None:
    """Forget a parked call whose client has disconnected: it gets no answer.

    The member stays until its session ends and may use its id again. But it is removed at once
    if it does not know its id, because only this answer would have named it.
    """
    waiting = state.parked.pop(token, None)
    if waiting is None:
        return
    group, member = waiting
    if member.sync_token is token:
        member.sync_token = None
        state.restart_session(member, now)
        return
    member.join_token = None
    if member.instance_id is None and not member.knows_its_id:
        rebalance.remove_member_and_rebalance(state, group, member.member_id, now)
    elif not member.is_new:
        state.restart_session(member, now)
