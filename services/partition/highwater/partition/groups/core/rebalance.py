"""One generation of a group: prepare it, complete the joins, hand out the assignment.

Kafka: `prepareRebalance`, `completeClassicGroupJoin`, `propagateAssignment` and the expirations
of GroupMetadataManager.java.
"""

from functools import partial

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.core.durable import GroupImage, GroupRecord
from highwater.partition.groups.core.group import ClassicGroup, Member
from highwater.partition.groups.core.shard_state import ShardState
from highwater.partition.groups.core.state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from highwater.partition.groups.core.values import (
    GroupKey,
    JoinResponse,
    SyncResponse,
)


def create_group(state: ShardState, key: GroupKey, wall_ms: int) -> ClassicGroup:
    """Create an empty group; it is only in memory until a record of it is written."""
    group = ClassicGroup(
        key,
        join_timer=state.new_timer(lambda now: complete_join(state, group, now)),
        sync_timer=state.new_timer(lambda now: expire_sync(state, group, now)),
        wall_ms=wall_ms,
    )
    state.add_group(group)
    return group


def rebalance_or_complete_join(state: ShardState, group: ClassicGroup, now: Moment) -> None:
    """After a change of members: start a rebalance, or end the join phase if all have joined."""
    if group.can_rebalance():
        prepare_rebalance(state, group, now)
    else:
        maybe_complete_join(state, group, now)


def maybe_complete_join(state: ShardState, group: ClassicGroup, now: Moment) -> None:
    """End the join phase when all have joined; a group's first rebalance waits for its delay."""
    if (
        group.state is PREPARING_REBALANCE
        and group.previous_state is not EMPTY
        and group.all_joined()
    ):
        complete_join(state, group, now)


def prepare_rebalance(state: ShardState, group: ClassicGroup, now: Moment) -> None:
    """Start collecting JoinGroups for the next generation."""
    if group.state is COMPLETING_REBALANCE:
        propagate_error(state, group, ErrorCode.REBALANCE_IN_PROGRESS, now)
    group.pending_sync.clear()
    state.timers.cancel(group.sync_timer)
    if group.state is EMPTY:
        delay_ms = state.config.initial_rebalance_delay_ms
        remaining_ms = max(group.rebalance_timeout_ms() - delay_ms, 0)
        group.new_member_added = False
        group.transition(PREPARING_REBALANCE, now.wall_ms)
        _await_more_members(state, group, delay_ms, remaining_ms, now)
        return
    group.transition(PREPARING_REBALANCE, now.wall_ms)
    if group.all_joined():
        complete_join(state, group, now)
    else:
        group.join_timer.action = partial(complete_join, state, group)
        state.timers.set(group.join_timer, now.now_ms + group.rebalance_timeout_ms())


def _await_more_members(
    state: ShardState, group: ClassicGroup, delay_ms: int, remaining_ms: int, now: Moment
) -> None:
    """Delay a group's first rebalance, and again while new members arrive (KIP-134)."""

    def expire(later: Moment) -> None:
        if group.new_member_added and remaining_ms != 0:
            group.new_member_added = False
            next_delay_ms = min(state.config.initial_rebalance_delay_ms, remaining_ms)
            next_remaining_ms = max(remaining_ms - delay_ms, 0)
            _await_more_members(state, group, next_delay_ms, next_remaining_ms, later)
        else:
            complete_join(state, group, later)

    group.join_timer.action = expire
    state.timers.set(group.join_timer, now.now_ms + delay_ms)


def complete_join(state: ShardState, group: ClassicGroup, now: Moment) -> None:
    """End the join phase: remove members that did not rejoin, answer the others' JoinGroup.

    Static members that did not rejoin stay until their session ends (KIP-345).
    """
    state.timers.cancel(group.join_timer)
    if group.state is DEAD:
        return
    late = [m for m in group.members.values() if not m.awaiting_join and m.instance_id is None]
    for member in late:
        state.remove_member(group, member.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    if group.members and not group.elect_joined_leader():
        # Only static members are left and none has rejoined; their sessions bound this wait.
        group.join_timer.action = partial(complete_join, state, group)
        state.timers.set(group.join_timer, now.now_ms + group.rebalance_timeout_ms())
        return
    group.next_generation(now.wall_ms)
    if group.state is EMPTY:
        state.apply(GroupRecord(group.key, group.image({}, now.wall_ms)))
        return
    everyone = group.joined_members()
    for member in list(group.members.values()):
        leads = member.member_id == group.leader
        state.answer_join(
            group,
            member,
            JoinResponse(
                error=ErrorCode.NONE,
                member_id=member.member_id,
                generation=group.generation,
                protocol_type=group.protocol_type,
                protocol=group.protocol,
                leader=group.leader or "",
                members=everyone if leads else (),
            ),
        )
        member.is_new = False
        member.knows_its_id = True
        state.restart_session(member, now)
        group.pending_sync.add(member.member_id)
    state.timers.set(group.sync_timer, now.now_ms + group.rebalance_timeout_ms())


def complete_sync(state: ShardState, group: ClassicGroup, image: GroupImage, now: Moment) -> None:
    """Write the leader's assignment, then answer the SyncGroup of each member that waits."""
    group.transition(STABLE, now.wall_ms)
    state.apply(GroupRecord(group.key, image))
    assigned = {m.member_id: m.assignment for m in image.members}
    for member in group.members.values():
        response = SyncResponse(
            error=ErrorCode.NONE,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            assignment=assigned[member.member_id],
        )
        if state.answer_sync(member, response, after_commit=True):
            # The session may have ended while the member waited for the leader's assignment.
            state.restart_session(member, now)


def propagate_error(state: ShardState, group: ClassicGroup, error: ErrorCode, now: Moment) -> None:
    """Answer every parked SyncGroup with this error."""
    for member in group.members.values():
        if state.answer_sync(member, SyncResponse(error=error), after_commit=False):
            state.restart_session(member, now)


def remove_member_and_rebalance(
    state: ShardState, group: ClassicGroup, member_id: str, now: Moment
) -> None:
    """Remove a member that failed or is expelled, and rebalance."""
    state.remove_member(group, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    if group.state in (STABLE, COMPLETING_REBALANCE):
        prepare_rebalance(state, group, now)
    elif group.state is PREPARING_REBALANCE and group.all_joined():
        complete_join(state, group, now)


def expire_member(state: ShardState, group: ClassicGroup, member: Member, now: Moment) -> None:
    """The member's session ended without a heartbeat."""
    if group.state is DEAD or group.members.get(member.member_id) is not member:
        return
    waits = member.join_token is not None or member.sync_token is not None
    if waits and not member.is_new:
        # Its client waits for our answer; the session starts again with that answer.
        # A new member has no session yet: this timer limits its wait.
        return
    remove_member_and_rebalance(state, group, member.member_id, now)


def expire_pending_member(
    state: ShardState, group: ClassicGroup, member_id: str, now: Moment
) -> None:
    """Forget an id that was handed out and not used in time."""
    if group.state is DEAD or not state.remove_pending_member(group, member_id):
        return
    if group.state is PREPARING_REBALANCE and group.all_joined():
        complete_join(state, group, now)
    state.forget_if_unused(group, now.wall_ms)


def expire_sync(state: ShardState, group: ClassicGroup, now: Moment) -> None:
    """Remove the members that did not send SyncGroup for this generation in time."""
    if group.state not in (COMPLETING_REBALANCE, STABLE) or not group.pending_sync:
        return
    for member_id in list(group.pending_sync):
        state.remove_member(group, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    prepare_rebalance(state, group, now)


def received_sync(state: ShardState, group: ClassicGroup, member_id: str) -> None:
    """Note a member's SyncGroup; with the last one the timeout is cancelled."""
    group.pending_sync.discard(member_id)
    if not group.pending_sync:
        state.timers.cancel(group.sync_timer)
