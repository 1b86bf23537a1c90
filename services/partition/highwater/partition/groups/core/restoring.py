"""Classic groups as they were, from what is kept of them: after loading, and after a conversion."""

from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.core import rebalance
from highwater.partition.groups.core.durable import GroupImage, MemberImage
from highwater.partition.groups.core.group import ClassicGroup, Member
from highwater.partition.groups.core.shard_state import ShardState
from highwater.partition.groups.core.state import (
    COMPLETING_REBALANCE,
    PREPARING_REBALANCE,
    STABLE,
)
from highwater.partition.groups.core.values import GroupKey


def restore_group(state: ShardState, key: GroupKey, image: GroupImage, now: Moment) -> None:
    """Build the group from its image and start its members' sessions."""
    group = rebalance.create_group(state, key, now.wall_ms)
    group.generation = image.generation
    group.protocol_type = image.protocol_type or None
    for stored in image.members:
        protocols = ((image.protocol or "", stored.subscription),)
        restore_member(state, group, stored, group.protocol_type or "", protocols, now)
    if image.members:
        make_stable(group, now.wall_ms)
        group.protocol = image.protocol or ""
        if image.leader in group.members:
            group.leader = image.leader
    group.state_since_ms = image.state_since_ms


def make_stable(group: ClassicGroup, wall_ms: int) -> None:
    """Take a group from EMPTY to STABLE, its members having an assignment."""
    group.transition(PREPARING_REBALANCE, wall_ms)
    group.transition(COMPLETING_REBALANCE, wall_ms)
    group.transition(STABLE, wall_ms)


def restore_member(
    state: ShardState,
    group: ClassicGroup,
    stored: MemberImage,
    protocol_type: str,
    protocols: tuple[tuple[str, bytes], ...],
    now: Moment,
) -> None:
    """Add a member with these protocols and start its session."""
    member = Member(
        member_id=stored.member_id,
        instance_id=stored.instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        rebalance_timeout_ms=stored.rebalance_timeout_ms,
        session_timeout_ms=stored.session_timeout_ms,
        protocols=protocols,
        session=state.new_timer(lambda later: rebalance.expire_member(state, group, member, later)),
    )
    state.add_member(group, member, protocol_type)
    state.restart_session(member, now)
