"""Target assignments, and the steps of members towards them.

Kafka: `TargetAssignmentBuilder`, `maybeReconcile` of GroupMetadataManager.java.
"""

from collections.abc import Mapping
from functools import partial

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import TopicId
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.consumer.assignors.types import (
    MemberAssignment,
    MemberSubscription,
    SubscribedTopic,
)
from highwater.partition.groups.consumer.durable import (
    CurrentRecord,
    TargetEpochRecord,
    TargetRecord,
)
from highwater.partition.groups.consumer.group import ConsumerGroup
from highwater.partition.groups.consumer.member import ConsumerMember, MemberState
from highwater.partition.groups.consumer.reconciliation import Goal, next_assignment
from highwater.partition.groups.consumer.sizes import assignment_size
from highwater.partition.groups.consumer.topics import subscribed
from highwater.partition.groups.consumer_core import fencing
from highwater.partition.groups.consumer_core.state import ConsumerState, Refusal
from highwater.partition.groups.consumer_core.timers import Deadline
from highwater.partition.groups.core.values import GroupKey


def assign(state: ConsumerState, key: GroupKey, group: ConsumerGroup) -> None:
    """Make the target assignment for the group's epoch, if that is newer than the target's.

    Raises Refusal if it cannot be stored. What was decided before then stands.
    """
    if group.epoch <= group.target_epoch:
        return
    topics = subscribed(state.topics, key.instance, group.subscribed_topics())
    members = _subscriptions(group, topics)
    assignor = state.assignors.get(group.preferred_assignor() or "")
    if assignor is None:  # None is wanted, or one that this node no longer has.
        assignor = next(iter(state.assignors.values()))
    targets = assignor.assign(members, topics, group.targets)
    if max(map(assignment_size, targets.values()), default=0) > state.config.list_bytes_max:
        # As Kafka answers when a record is too large; members keep what they have.
        raise Refusal(
            ErrorCode.UNKNOWN_SERVER_ERROR, "The assignment of a member is too large for a record."
        )
    for member_id, target in targets.items():
        if group.targets.get(member_id) != target:
            state.apply(TargetRecord(key, member_id, target))
    state.apply(TargetEpochRecord(key, group.epoch))


def _subscriptions(
    group: ConsumerGroup, topics: Mapping[TopicId, SubscribedTopic]
) -> list[MemberSubscription]:
    """What members read. Those that read the same share one set: there may be a thousand of them, with
    as many topics.
    """
    ids = {topic.name: topic_id for topic_id, topic in topics.items()}
    known: dict[tuple[frozenset[str], str], frozenset[TopicId]] = {}
    subscriptions = []
    for member in group.members.values():
        metadata = member.metadata
        reads = metadata.topic_names, metadata.topic_regex
        topic_ids = known.get(reads)
        if topic_ids is None:
            names = group.topics_of(metadata)
            topic_ids = known[reads] = frozenset(ids[name] for name in names if name in ids)
        subscriptions.append(
            MemberSubscription(
                member_id=member.member_id,
                instance_id=metadata.instance_id,
                rack_id=metadata.rack_id,
                topic_ids=topic_ids,
            )
        )
    return subscriptions


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
