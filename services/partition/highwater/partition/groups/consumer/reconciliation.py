"""The next step of a member from what it holds to its target assignment.

Partitions that it is to lose are named to it first; it keeps its epoch until it no longer reports
them. Then it gets what nobody else holds, and with that the epoch of the target. So no partition
belongs to two members at any time. What it keeps, it keeps with the epoch in which it got it (KIP-1251).
Kafka: `CurrentAssignmentBuilder`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from highwater.model.ids import TopicId
from highwater.partition.groups.consumer.assignment import (
    NOTHING,
    assignment_of,
    overlap,
    pairs_of,
    union,
    without,
)
from highwater.partition.groups.consumer.assignors.types import MemberAssignment
from highwater.partition.groups.consumer.member import CurrentAssignment, MemberState


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What one member is to be reconciled to."""

    target_epoch: int
    target: MemberAssignment
    subscribed: Callable[[TopicId], bool]
    """Whether the member reads a topic now; the target may be of an older subscription."""
    is_free: Callable[[TopicId, int], bool]
    """Whether no other member holds a partition."""
    owned: MemberAssignment | None
    """What the member says that it holds; None if it does not say."""
    subscription_changed: bool


def next_assignment(current: CurrentAssignment, goal: Goal) -> CurrentAssignment:
    """The member's next state, or the same.

    `current` may be of a state that only a newer Kafka knows. The caller fences such a member, or
    it says that it holds nothing; then it begins in the target's epoch.
    """
    if current.state is MemberState.STABLE:
        if current.epoch != goal.target_epoch:
            return _reconciled(current, goal)
        return _narrowed(current, goal) if goal.subscription_changed else current
    if current.state is MemberState.UNREVOKED_PARTITIONS and _still_owns(goal, current.revoking):
        return _narrowed(current, goal) if goal.subscription_changed else current
    if current.state is MemberState.UNKNOWN:
        assert goal.owned == NOTHING
        current = replace(current, epoch=goal.target_epoch)
    return _reconciled(current, goal)


def _still_owns(goal: Goal, revoking: MemberAssignment) -> bool:
    return goal.owned is None or overlap(goal.owned, revoking)


def _narrowed(current: CurrentAssignment, goal: Goal) -> CurrentAssignment:
    """Take away topics that the member no longer reads; the target follows later."""
    kept = {t: p for t, p in current.assigned.items() if goal.subscribed(t)}
    if len(kept) == len(current.assigned):
        return current
    revoking = union(current.revoking, without(current.assigned, kept))
    if _still_owns(goal, revoking):
        return CurrentAssignment(
            epoch=current.epoch,
            previous_epoch=current.epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            revoking=revoking,
            since=current.epochs_of(union(kept, revoking)),
        )
    return replace(
        current, previous_epoch=current.epoch, assigned=kept, since=current.epochs_of(kept)
    )


def _reconciled(current: CurrentAssignment, goal: Goal) -> CurrentAssignment:
    target = {t: p for t, p in goal.target.items() if goal.subscribed(t)}
    wanted = set(pairs_of(target))
    kept = assignment_of(pair for pair in pairs_of(current.assigned) if pair in wanted)
    revoking = without(current.assigned, kept)
    if revoking and _still_owns(goal, revoking):
        return CurrentAssignment(
            epoch=current.epoch,
            previous_epoch=current.epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            revoking=revoking,
            since=current.epochs_of(current.assigned),
        )
    missing = without(target, kept)
    free = assignment_of(pair for pair in pairs_of(missing) if goal.is_free(*pair))
    waits = free != missing
    return CurrentAssignment(
        epoch=goal.target_epoch,
        previous_epoch=current.epoch,
        state=MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE,
        assigned=union(kept, free),
        revoking=NOTHING,
        since=current.epochs_of(kept) | dict.fromkeys(pairs_of(free), goal.target_epoch),
    )
