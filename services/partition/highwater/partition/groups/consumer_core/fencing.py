"""Members that leave a consumer group, by themselves or because they are late.

Kafka: `consumerGroupLeave`, `consumerGroupFenceMembers` of GroupMetadataManager.java.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.consumer.assignment import NOTHING, pairs_of
from highwater.partition.groups.consumer.durable import (
    CurrentRecord,
    MemberRecord,
    RegexRecord,
    TargetRecord,
)
from highwater.partition.groups.consumer.group import ConsumerGroup
from highwater.partition.groups.consumer.member import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
)
from highwater.partition.groups.consumer_core import downgrade
from highwater.partition.groups.consumer_core.state import ConsumerState, Refusal
from highwater.partition.groups.consumer_core.timers import Deadline
from highwater.partition.groups.core.values import GroupKey


def known_member(group: ConsumerGroup, key: GroupKey, member_id: str) -> ConsumerMember:
    """The group's member; raises Refusal if it has no such member."""
    member = group.members.get(member_id)
    if member is None:
        raise Refusal(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member_id} is not a member of group {key.group_id}.",
        )
    return member


def known_static_member(
    group: ConsumerGroup, member_id: str, instance_id: str, *, by_instance: bool = False
) -> ConsumerMember:
    """The member of the instance id, which has to have this member id.

    With `by_instance` it may be empty, as admin clients send it. Raises Refusal.
    """
    member = group.static_member(instance_id)
    if member is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id and not (by_instance and not member_id):
        raise Refusal(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{member.member_id}.",
        )
    return member


def leave(
    state: ConsumerState,
    key: GroupKey,
    group: ConsumerGroup,
    *,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    now: Moment,
) -> None:
    """The member leaves; a static one may come back within its session (epoch -2)."""
    if instance_id is None:
        member = known_member(group, key, member_id)
    else:
        member = known_static_member(group, member_id, instance_id)
        if epoch == STATIC_LEAVE_EPOCH:
            gone = replace(
                member.current,
                epoch=STATIC_LEAVE_EPOCH,
                revoking=NOTHING,
                # The next incarnation has had all of it since it joined.
                since=dict.fromkeys(pairs_of(member.current.assigned), JOIN_EPOCH),
            )
            state.apply(CurrentRecord(key, member_id, gone))
            return
    fence(state, key, group, [member.member_id], now)


def fence(
    state: ConsumerState,
    key: GroupKey,
    group: ConsumerGroup,
    member_ids: Sequence[str],
    now: Moment,
) -> None:
    """Remove members; the others share what they held in the group's next epoch.

    If only members of the classic protocol are left, the group becomes a classic one.
    """
    if not member_ids:
        return
    if downgrade.may_follow(state, key, group, member_ids):
        downgrade.to_classic(state, key, group, leaving=frozenset(member_ids), now=now)
        return
    for member_id in member_ids:
        remove(state, key, member_id)
    forget_regexes(state, key, group)
    state.bump_epoch(key, group)


def remove(state: ConsumerState, key: GroupKey, member_id: str) -> None:
    """Delete the member's records, in the order in which Kafka does, and its timers."""
    state.apply(CurrentRecord(key, member_id, None))
    state.apply(TargetRecord(key, member_id, None))
    state.apply(MemberRecord(key, member_id, None))
    state.timers.forget(key, member_id)


def forget_regexes(state: ConsumerState, key: GroupKey, group: ConsumerGroup) -> None:
    """Delete the regular expressions that no member has any more."""
    for regex in [regex for regex in group.regexes if regex not in group.regex_readers]:
        state.apply(RegexRecord(key, regex, None))
    state.askers.forget(key, group)


def restart_session(
    state: ConsumerState, key: GroupKey, member: ConsumerMember, now: Moment
) -> None:
    """Begin the member's session anew."""
    classic = member.metadata.classic
    session_ms = (
        state.config_of(key).session_timeout_ms if classic is None else classic.session_timeout_ms
    )
    state.timers.set(
        key,
        member.member_id,
        Deadline.SESSION,
        now.now_ms + session_ms,
        partial(expire, state, key, member.member_id),
    )


def expire(state: ConsumerState, key: GroupKey, member_id: str, now: Moment) -> None:
    """The member is late: its session, JoinGroup or SyncGroup."""
    group = state.groups.get(key)
    if group is not None and member_id in group.members:
        fence(state, key, group, [member_id], now)
