"""Steps of one partition's reassignment (KIP-455)."""

from dataclasses import replace
from typing import Any

import pytest

from highwater.controller.core.election import Candidates
from highwater.controller.core.reassign import (
    arriving_replicas,
    cancel,
    completed,
    is_moving,
    original_replicas,
    settled,
    start,
    target_replicas,
)
from highwater.model.cluster import PartitionState
from highwater.model.ids import NO_NODE, LeaderEpoch, NodeId
from tests.support.controller_images import topic_state


def all_alive(*, dead: tuple[int, ...] = (), draining: tuple[int, ...] = ()) -> Candidates:
    return Candidates(
        alive=frozenset(NodeId(n) for n in range(1, 10) if n not in dead),
        draining=frozenset(map(NodeId, draining)),
    )


def nodes(*numbers: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, numbers))


def partition(*replicas: int, **fields: Any) -> PartitionState:
    """Led by the first replica in leader epoch 5, partition epoch 7, all in sync."""
    (state,) = topic_state("t", [replicas]).partitions
    return replace(state, **fields)


def begin(state: PartitionState, *target: int, min_isr: int = 1, **who: Any) -> PartitionState:
    after = start(state, nodes(*target), all_alive(**who), min_isr=min_isr)
    assert after is not None
    return after


def with_isr(state: PartitionState, *isr: int, min_isr: int = 1, **who: Any) -> PartitionState:
    """The state after an AlterPartition."""
    return completed(replace(state, isr=nodes(*isr)), all_alive(**who), min_isr=min_isr)


def test_a_move_begins_with_more_replicas() -> None:
    moving = begin(partition(1, 2, 3), 1, 4, 2)
    assert moving.replicas == (1, 4, 2, 3), "those that it shall have, then those that go"
    assert (moving.adding_replicas, moving.removing_replicas) == ((4,), (3,))
    assert (moving.leader, moving.leader_epoch, moving.isr) == (1, 5, (1, 2, 3))
    assert moving.partition_epoch == 8
    assert is_moving(moving)
    assert target_replicas(moving) == (1, 4, 2)
    assert original_replicas(moving) == (1, 2, 3)


def test_it_ends_when_all_that_are_added_are_in_sync() -> None:
    moving = begin(partition(1, 2, 3), 1, 4, 5)
    assert with_isr(moving, 1, 2, 3, 4) == replace(moving, isr=(1, 2, 3, 4)), "5 is missing"
    done = with_isr(moving, 1, 2, 3, 4, 5)
    assert (done.replicas, done.isr) == ((1, 4, 5), (1, 4, 5))
    assert (done.adding_replicas, done.removing_replicas) == ((), ())
    assert not is_moving(done)
    assert (done.leader, done.leader_epoch) == (1, 6), "fetches of those that went do not count"


def test_a_removed_leader_hands_over() -> None:
    moving = begin(partition(1), 2)
    done = with_isr(moving, 1, 2)
    assert (done.replicas, done.isr, done.leader, done.leader_epoch) == ((2,), (2,), 2, 6)
    assert done.last_known_leader == 2


def test_the_first_eligible_target_replica_leads() -> None:
    moving = begin(partition(1, 2, 3), 4, 5, 6)
    done = with_isr(moving, 1, 2, 3, 4, 5, 6, draining=(4,))
    assert done.leader == 5
    alone = with_isr(moving, 1, 2, 3, 4, 5, 6, draining=(4, 5, 6))
    assert alone.leader == 4, "better one that goes soon than none"


def test_more_replicas_need_no_new_epoch() -> None:
    done = with_isr(begin(partition(1), 1, 2, 3), 1, 2, 3)
    assert (done.replicas, done.leader, done.leader_epoch) == ((1, 2, 3), 1, 5)


def test_fewer_replicas_and_another_order_take_effect_at_once() -> None:
    fewer = begin(partition(1, 2, 3), 3, 2)
    assert (fewer.replicas, fewer.isr, fewer.leader, fewer.leader_epoch) == ((3, 2), (2, 3), 3, 6)
    turned = begin(partition(1, 2, 3), 3, 1, 2)
    assert (turned.replicas, turned.leader, turned.leader_epoch) == ((3, 1, 2), 1, 5)
    assert turned.partition_epoch == 8


def test_an_assignment_that_is_present_changes_nothing() -> None:
    state = partition(1, 2)
    assert start(state, nodes(1, 2), all_alive(), min_isr=1) is None
    moving = begin(state, 1, 3)
    assert start(moving, nodes(1, 3), all_alive(), min_isr=1) is None


def test_enough_replicas_must_be_in_sync_before_others_are_removed() -> None:
    moving = begin(partition(1, 2, 3, isr=nodes(1, 2)), 1, 3, min_isr=2)
    assert moving.replicas == (1, 3, 2), "with 2 away only 1 would have everything"
    assert with_isr(moving, 1, 2, 3, min_isr=2).replicas == (1, 3)
    smaller = begin(partition(1, 2, 3, isr=nodes(1, 2)), 1, min_isr=2)
    assert smaller.replicas == (1,), "no more are asked for than there shall be"


def test_eligible_leaders_end_with_the_move() -> None:
    state = partition(1, 2, 3, isr=nodes(1), eligible_leaders=nodes(2, 3))
    moving = begin(state, 1, 4, min_isr=2)
    assert moving.eligible_leaders == (2, 3)
    done = completed(replace(moving, isr=nodes(1, 4)), all_alive(), min_isr=2)
    assert (done.replicas, done.isr, done.eligible_leaders) == ((1, 4), (1, 4), ())


def test_a_move_without_a_leader_waits_for_one() -> None:
    moving = begin(partition(1, 2), 2, 3)
    dead = replace(moving, leader=NO_NODE, isr=nodes(3))
    nobody = all_alive(dead=(1, 2, 3))
    assert completed(dead, nobody, min_isr=1) == dead


def test_another_reassignment_replaces_the_first() -> None:
    moving = begin(partition(1, 2, 3), 1, 2, 4)
    other = begin(moving, 1, 2, 5, min_isr=2)
    assert other.replicas == (1, 2, 5, 4, 3)
    assert (other.adding_replicas, other.removing_replicas) == ((5,), (4, 3))
    assert with_isr(other, 1, 2, 3, 5).replicas == (1, 2, 5)


def test_a_replica_being_added_stays_so_in_the_next_reassignment() -> None:
    moving = begin(partition(1, 2), 1, 3)
    again = begin(moving, 3, 1, 4)
    assert (again.adding_replicas, again.removing_replicas) == ((3, 4), (2,))


def test_a_reassignment_to_the_former_replicas() -> None:
    moving = begin(partition(1, 2), 1, 3)
    back = begin(moving, 1, 2)
    assert (back.replicas, back.isr, back.leader_epoch) == ((1, 2), (1, 2), 6)


def test_cancelling_keeps_the_former_replicas() -> None:
    moving = begin(partition(1, 2, 3), 4, 5, 1)
    back = cancel(moving, all_alive(), min_isr=2)
    assert back is not None
    assert set(back.replicas) == {1, 2, 3}
    assert (back.leader, back.leader_epoch, back.partition_epoch) == (1, 6, 9)
    assert (back.adding_replicas, back.removing_replicas) == ((), ())


def test_cancelling_takes_new_replicas_out_of_the_isr() -> None:
    moving = begin(partition(1, 2), 3, 4)
    led = replace(moving, isr=nodes(1, 3), leader=NodeId(3), eligible_leaders=())
    back = cancel(led, all_alive(), min_isr=2)
    assert back is not None
    assert (back.isr, back.leader, back.eligible_leaders) == ((1,), 1, ())
    alone = replace(moving, isr=nodes(3), leader=NodeId(3))
    assert cancel(alone, all_alive(), min_isr=1) is None, "nobody who stays has everything"


def test_cancelling_keeps_eligible_leaders() -> None:
    moving = begin(partition(1, 2), 1, 3, min_isr=2)
    short = replace(moving, isr=nodes(1), eligible_leaders=nodes(2))
    back = cancel(short, all_alive(), min_isr=2)
    assert back is not None
    assert (back.isr, back.eligible_leaders) == ((1,), (2,))


def test_cancelling_while_nobody_leads() -> None:
    moving = begin(partition(1, 2), 3, 4)
    dead = replace(
        moving,
        leader=NO_NODE,
        leader_epoch=LeaderEpoch(6),
        isr=nodes(1, 3),
        last_known_leader=NodeId(3),
    )
    back = cancel(dead, all_alive(dead=(1, 2, 3, 4)), min_isr=1)
    assert back is not None
    assert (back.leader, back.leader_epoch, back.isr) == (NO_NODE, 7, (1,))
    assert back.last_known_leader == NO_NODE, "it has no replica any more"


def test_a_leader_that_was_being_added_goes_only_when_it_has_handed_over() -> None:
    moving = begin(partition(1, 2), 3, 4)
    led = replace(moving, isr=nodes(1, 2, 3), leader=NodeId(3))
    back = cancel(led, all_alive(), min_isr=2, leader_first=True)
    assert back is not None
    assert (back.leader, back.leader_epoch, back.isr) == (3, 5, (1, 2, 3))
    assert (back.replicas, back.partition_epoch) == ((1, 2, 3, 4), led.partition_epoch + 1)
    assert back.adding_replicas == back.removing_replicas == (3, 4)
    assert (target_replicas(back), original_replicas(back)) == ((1, 2), (1, 2))
    assert arriving_replicas(back) == frozenset(), "nothing of node 4 is waited for"
    assert cancel(back, all_alive(), min_isr=2, leader_first=True) is back, "it is on its way"
    assert completed(back, all_alive(), min_isr=2, leader_first=True) is back
    done = completed(back, all_alive(), min_isr=2)
    assert (done.replicas, done.leader, done.leader_epoch, done.isr) == ((1, 2), 1, 6, (1, 2))
    assert not is_moving(done)
    dead = cancel(led, all_alive(dead=(3,)), min_isr=2, leader_first=True)
    assert dead is not None
    assert (dead.replicas, dead.leader) == ((1, 2), 1), "nobody to ask"


def test_a_move_that_was_called_back_may_go_on_after_all() -> None:
    led = replace(begin(partition(1, 2), 3, 4), isr=nodes(1, 2, 3), leader=NodeId(3))
    back = cancel(led, all_alive(), min_isr=1, leader_first=True)
    assert back is not None
    again = begin(back, 3, 4)
    assert (again.adding_replicas, again.removing_replicas) == ((3, 4), (1, 2))
    assert again.replicas == led.replicas


def test_a_move_back_that_the_isr_does_not_allow_yet_ends_later() -> None:
    led = replace(begin(partition(1, 2), 3, 4), isr=nodes(1, 3), leader=NodeId(3))
    back = cancel(led, all_alive(), min_isr=2, leader_first=True)
    assert back is not None
    assert completed(back, all_alive(), min_isr=2) is back, "one former replica is not enough"
    done = with_isr(back, 1, 3, 2, min_isr=2)
    assert (done.replicas, done.leader) == ((1, 2), 1)


def test_only_a_reassignment_is_cancelled() -> None:
    with pytest.raises(AssertionError):
        cancel(partition(1, 2), all_alive(), min_isr=1)


def test_an_election_may_end_a_move() -> None:
    state = partition(1, 2)
    assert settled(state, None, all_alive(), min_isr=1) is None
    moving = begin(state, 2, 3, min_isr=2)
    elected = replace(
        moving,
        leader=NodeId(3),
        leader_epoch=LeaderEpoch(6),
        isr=nodes(3),
        partition_epoch=moving.partition_epoch + 1,
    )
    assert settled(moving, elected, all_alive(), min_isr=2) is elected, "one is not enough"
    done = settled(moving, elected, all_alive(), min_isr=1)
    assert done is not None
    assert (done.replicas, done.partition_epoch) == ((2, 3), moving.partition_epoch + 1)
    waiting = replace(moving, isr=nodes(1, 2, 3))
    assert settled(waiting, None, all_alive(), min_isr=2) is None, "its leader hands over first"
    done = settled(waiting, None, all_alive(dead=(1,)), min_isr=2)
    assert done is not None
    assert (done.replicas, done.partition_epoch) == ((2, 3), waiting.partition_epoch + 1)
