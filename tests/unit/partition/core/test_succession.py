"""Who leads next, and what it would not have."""

from __future__ import annotations

from highwater.partition.core import replica_events as on
from highwater.partition.core.replica import Replica
from highwater.partition.core.succession import has_successor, have_all, heard_since, successors
from tests.unit.partition.core.conversation import Conversation


def who(leader: Replica) -> list[int]:
    return list(successors(leader.isr, leader.node, leader.ineligible))


def any_successor(leader: Replica) -> bool:
    return has_successor(leader.isr, leader.node, leader.ineligible)


def successors_have_all(leader: Replica, end: int) -> bool:
    return have_all(iter(who(leader)), leader.followers, end)


def leader(*isr: int) -> Conversation:
    """Node 1 leads in epoch 4; its log ends at 5."""
    told = Conversation((0, 0), end=5, high_watermark=5)
    told.record(1, 4, 7, replicas=(1, 2, 3), isr=isr)
    return told


def test_members_of_the_isr_that_may_lead() -> None:
    told = leader(1, 2, 3)
    assert who(told.replica) == [2, 3]
    told.hears(on.IneligibleChanged(nodes=frozenset({2})))
    assert who(told.replica) == [3]
    assert any_successor(told.replica)
    told.hears(on.IneligibleChanged(nodes=frozenset({2, 3})))
    assert not any_successor(told.replica)


def test_who_is_not_in_sync_does_not_count() -> None:
    assert not any_successor(leader(1).replica)
    assert who(leader(1, 3).replica) == [3]


def test_all_of_them_have_to_have_everything() -> None:
    replica = leader(1, 2, 3).replica
    assert not successors_have_all(replica, 5), "nothing is known of them yet"
    replica.follower_fetched(replica.followers[2], 5, 0)
    assert not successors_have_all(replica, 5), "the other one may be elected"
    replica.follower_fetched(replica.followers[3], 5, 0)
    assert successors_have_all(replica, 5)
    assert not successors_have_all(replica, 6)


def test_who_would_not_be_elected_is_not_waited_for() -> None:
    told = leader(1, 2, 3)
    told.replica.follower_fetched(told.replica.followers[2], 5, 0)
    told.hears(on.IneligibleChanged(nodes=frozenset({3})))
    assert successors_have_all(told.replica, 5)


def test_whose_fetches_came_lately() -> None:
    replica = leader(1, 2, 3).replica
    replica.follower_fetched(replica.followers[2], 5, 10)
    replica.follower_fetched(replica.followers[3], 5, 20)
    assert list(heard_since(replica.followers, 10)) == [2, 3]
    assert list(heard_since(replica.followers, 11)) == [3]
    assert list(heard_since(replica.followers, 21)) == []
