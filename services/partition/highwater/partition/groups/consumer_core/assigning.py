"""The steps of members towards their target assignments (`targets`).

Kafka: `maybeReconcile` of GroupMetadataManager.java.
"""

from functools import partial

from highwater.model.ids import TopicId
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.consumer.assignors.types import MemberAssignment
from highwater.partition.groups.consumer.durable import CurrentRecord
from highwater.partition.groups.consumer.group import ConsumerGroup
from highwater.partition.groups.consumer.member import ConsumerMember, MemberState
from highwater.partition.groups.consumer.reconciliation import Goal, next_assignment
from highwater.partition.groups.consumer.topics import subscribed
from highwater.partition.groups.consumer_core import fencing
from highwater.partition.groups.consumer_core.state import ConsumerState
from highwater.partition.groups.consumer_core.timers import Deadline
from highwater.partition.groups.core.values import GroupKey


def reconcile(
    state: ConsumerState,
    key: GroupKey,
    group: ConsumerGroup,
    member: ConsumerMember,
    *,
    owned: MemberAssignment | None,
    subscription_changed: bool,
    now: Moment,
) -> None:
    """Take the member a step towards its target, as far as what it holds allows.

    A member of an unknown state must hold nothing.
    """
    current = member.current
    if not subscription_changed and current.is_reconciled_to(group.target_epoch):
        return
    names = group.topics_of(member.metadata)
    ids = subscribed(state.topics, key.instance, names)

    def is_free(topic_id: TopicId, partition: int) -> bool:
        return group.owners.get((topic_id, partition)) in (None, member.member_id)

    goal = Goal(
        target_epoch=group.target_epoch,
        target=group.target(member.member_id),
        subscribed=ids.__contains__,
        is_free=is_free,
        owned=owned,
        subscription_changed=subscription_changed,
    )
    following = next_assignment(current, goal)
    if following != current:
        state.apply(CurrentRecord(key, member.member_id, following))
        if member.metadata.classic is None:
            watch_revocation(state, key, group.members[member.member_id], now)


def watch_revocation(
    state: ConsumerState, key: GroupKey, member: ConsumerMember, now: Moment
) -> None:
    """Bound the time that the member may take to give up partitions, if it has to."""
    if member.current.state is not MemberState.UNREVOKED_PARTITIONS:
        state.timers.cancel(key, member.member_id, Deadline.REVOCATION)
        return
    state.timers.set(
        key,
        member.member_id,
        Deadline.REVOCATION,
        now.now_ms + member.metadata.rebalance_timeout_ms,
        partial(_revocation_late, state, key, member.member_id, member.current.epoch),
    )


def _revocation_late(
    state: ConsumerState, key: GroupKey, member_id: str, epoch: int, now: Moment
) -> None:
    group = state.groups.get(key)
    member = None if group is None else group.members.get(member_id)
    if group is not None and member is not None and member.current.epoch == epoch:
        fencing.fence(state, key, group, [member_id], now)
