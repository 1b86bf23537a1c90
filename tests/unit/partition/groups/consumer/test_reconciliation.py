"""One member's steps, by tables: its state, its target, what it says, what others hold."""

from __future__ import annotations

import pytest

from highwater.partition.groups.consumer.assignment import NOTHING
from highwater.partition.groups.consumer.assignors.types import MemberAssignment
from highwater.partition.groups.consumer.member import CurrentAssignment, MemberState
from highwater.partition.groups.consumer.reconciliation import Goal, next_assignment
from tests.unit.partition.groups.consumer_dialogue import holding
from tests.unit.partition.groups.topics import topic_id

STABLE = MemberState.STABLE
UNREVOKED = MemberState.UNREVOKED_PARTITIONS
UNRELEASED = MemberState.UNRELEASED_PARTITIONS


def member(
    state: MemberState, epoch: int, assigned: MemberAssignment, revoking: MemberAssignment = NOTHING
) -> CurrentAssignment:
    return CurrentAssignment(
        epoch=epoch, previous_epoch=epoch - 1, state=state, assigned=assigned, revoking=revoking
    )


def goal(
    target: MemberAssignment,
    *,
    epoch: int = 2,
    owned: MemberAssignment | None = None,
    taken: MemberAssignment = NOTHING,
    reads: str = "tu",
    changed: bool = False,
) -> Goal:
    return Goal(
        target_epoch=epoch,
        target=target,
        subscribed=[topic_id(name) for name in reads].__contains__,
        is_free=lambda topic, partition: partition not in taken.get(topic, ()),
        owned=owned,
        subscription_changed=changed,
    )


ALL, LEFT, RIGHT = holding(t=(0, 1)), holding(t=(0,)), holding(t=(1,))


@pytest.mark.parametrize(
    ("before", "aim", "state", "epoch", "assigned", "revoking"),
    [
        # In the target's epoch: nothing to do, whatever the member says.
        (member(STABLE, 2, ALL), goal(ALL), STABLE, 2, ALL, NOTHING),
        # A new epoch with the same target, and with more of it.
        (member(STABLE, 1, ALL), goal(ALL), STABLE, 2, ALL, NOTHING),
        (member(STABLE, 1, LEFT), goal(ALL), STABLE, 2, ALL, NOTHING),
        # More is held by others, all or some of it.
        (member(STABLE, 1, LEFT), goal(ALL, taken=RIGHT), UNRELEASED, 2, LEFT, NOTHING),
        (member(STABLE, 1, NOTHING), goal(ALL, taken=RIGHT), UNRELEASED, 2, LEFT, NOTHING),
        # Less: the member keeps its epoch until it no longer holds it.
        (member(STABLE, 1, ALL), goal(LEFT), UNREVOKED, 1, LEFT, RIGHT),
        (member(STABLE, 1, ALL), goal(LEFT, owned=ALL), UNREVOKED, 1, LEFT, RIGHT),
        (member(STABLE, 1, ALL), goal(LEFT, owned=LEFT), STABLE, 2, LEFT, NOTHING),
        (member(UNREVOKED, 1, LEFT, RIGHT), goal(LEFT, owned=LEFT), STABLE, 2, LEFT, NOTHING),
        (member(UNREVOKED, 1, LEFT, RIGHT), goal(LEFT, owned=ALL), UNREVOKED, 1, LEFT, RIGHT),
        (member(UNREVOKED, 1, LEFT, RIGHT), goal(LEFT), UNREVOKED, 1, LEFT, RIGHT),
        # What it gave up is to be its own again.
        (member(UNREVOKED, 1, LEFT, RIGHT), goal(ALL, owned=LEFT), STABLE, 2, ALL, NOTHING),
        # It waits until it is free, or until the target changes.
        (member(UNRELEASED, 2, LEFT), goal(ALL, taken=RIGHT), UNRELEASED, 2, LEFT, NOTHING),
        (member(UNRELEASED, 2, LEFT), goal(ALL), STABLE, 2, ALL, NOTHING),
        (member(UNRELEASED, 2, LEFT), goal(NOTHING, epoch=3), UNREVOKED, 2, NOTHING, LEFT),
        # What it does not read any more is not its target.
        (member(STABLE, 1, ALL), goal(ALL, reads="u"), UNREVOKED, 1, NOTHING, ALL),
        (member(STABLE, 2, ALL), goal(ALL, reads="u", changed=True), UNREVOKED, 2, NOTHING, ALL),
        (member(STABLE, 2, ALL), goal(ALL, changed=True), STABLE, 2, ALL, NOTHING),
        (
            member(STABLE, 2, ALL),
            goal(ALL, reads="u", changed=True, owned=NOTHING),
            STABLE,
            2,
            NOTHING,
            NOTHING,
        ),
        # A state of a newer Kafka.
        (member(MemberState.UNKNOWN, 1, ALL), goal(ALL, owned=NOTHING), STABLE, 2, ALL, NOTHING),
    ],
)
def test_steps(
    before: CurrentAssignment,
    aim: Goal,
    state: MemberState,
    epoch: int,
    assigned: MemberAssignment,
    revoking: MemberAssignment,
) -> None:
    after = next_assignment(before, aim)
    assert (after.state, after.epoch) == (state, epoch)
    assert (after.assigned, after.revoking) == (assigned, revoking)


def test_the_previous_epoch_is_that_of_the_last_answer() -> None:
    assert next_assignment(member(STABLE, 1, ALL), goal(ALL)).previous_epoch == 1
    assert next_assignment(member(STABLE, 2, ALL), goal(LEFT, epoch=3)).previous_epoch == 2


def since(current: CurrentAssignment) -> dict[int, int]:
    """{partition of "t": the epoch in which the member got it}"""
    return {partition: epoch for (_, partition), epoch in current.since.items()}


def test_partitions_keep_the_epoch_in_which_the_member_got_them() -> None:
    step = next_assignment(member(STABLE, 1, NOTHING), goal(LEFT))
    assert since(step) == {0: 2}
    step = next_assignment(step, goal(ALL, epoch=3))
    assert since(step) == {0: 2, 1: 3}
    step = next_assignment(step, goal(RIGHT, epoch=4, owned=ALL))
    assert (step.state, since(step)) == (UNREVOKED, {0: 2, 1: 3})
    # Given up and got again: it might have been another member's meanwhile.
    step = next_assignment(step, goal(ALL, epoch=5, owned=RIGHT))
    assert since(step) == {0: 5, 1: 3}
    narrowed = goal(ALL, epoch=5, reads="u", changed=True, owned=ALL)
    assert since(next_assignment(step, narrowed)) == {0: 5, 1: 3}


def test_partitions_of_an_older_record_were_got_in_its_epoch() -> None:
    step = next_assignment(member(STABLE, 1, LEFT), goal(ALL))
    assert since(step) == {0: 1, 1: 2}
