"""Preferred leaders, and replicas whose logs fail although their nodes live."""

from highwater.controller.core.change_leader import (
    elect_preferred,
    elect_with_space,
    without_failed_replicas,
)
from highwater.controller.core.election import elect
from highwater.model.ids import NO_NODE, NodeId
from tests.unit.controller.core.test_election import alive, partition


def test_the_preferred_leader_takes_over() -> None:
    after = elect_preferred(partition(leader=NodeId(2)), alive(1, 2, 3))
    assert after is not None
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (1, 6, 8)
    assert (after.isr, after.last_known_leader) == ((1, 2, 3), 1)


def test_only_a_live_member_of_the_isr_becomes_preferred_leader() -> None:
    led_by_2 = partition(leader=NodeId(2))
    assert elect_preferred(partition(), alive(1, 2, 3)) is None, "it leads already"
    assert elect_preferred(led_by_2, alive(2, 3)) is None
    assert elect_preferred(led_by_2, alive(1, 2, 3, draining=(1,))) is None
    outside = partition(leader=NodeId(2), isr=(2, 3))
    assert elect_preferred(outside, alive(1, 2, 3)) is None


def test_a_preferred_leader_with_a_full_disk_takes_nothing_over() -> None:
    led_by_2 = partition(leader=NodeId(2))
    assert elect_preferred(led_by_2, alive(1, 2, 3, full=(1,))) is None
    assert elect_preferred(led_by_2, alive(1, 2, 3, full=(1, 2))) is None
    assert elect_preferred(led_by_2, alive(1, 2, 3, full=(2,))) is not None
    leaderless = partition(leader=NO_NODE)
    assert elect_preferred(leaderless, alive(1, 2, 3, full=(1,))) is not None, "the last resort"


def test_the_next_one_with_space_leads() -> None:
    after = elect_with_space(partition(), alive(1, 2, 3, full=(1, 2)))
    assert after is not None
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (3, 6, 8)
    assert (after.isr, after.last_known_leader) == ((1, 2, 3), 3)
    assert elect_with_space(partition(isr=(1, 2)), alive(1, 2, 3, full=(1, 2))) is None
    assert elect_with_space(partition(), alive(1, 2, draining=(2,), full=(1,))) is None


def failed(*nodes: int) -> frozenset[NodeId]:
    return frozenset(map(NodeId, nodes))


def test_a_failed_leader_is_replaced_for_its_partition_only() -> None:
    after = without_failed_replicas(partition(), failed(1), alive(1, 2, 3), min_isr=1)
    assert after is not None
    assert (after.leader, after.leader_epoch, after.isr) == (2, 6, (2, 3))


def test_a_failed_follower_leaves_isr_and_eligible_leaders() -> None:
    shrunk = partition(isr=(1, 2))
    after = without_failed_replicas(shrunk, failed(2), alive(1, 2, 3), min_isr=2)
    assert after is not None
    assert (after.leader, after.leader_epoch, after.isr) == (1, 6, (1,)), "its fetches are fenced"
    assert after.eligible_leaders == ()
    assert without_failed_replicas(after, failed(2), alive(1, 2, 3), min_isr=2) is None
    assert without_failed_replicas(after, failed(9), alive(1, 2, 3), min_isr=2) is None


def test_an_eligible_leader_that_fails_is_fenced_too() -> None:
    shrunk = partition(isr=(1,), eligible_leaders=(NodeId(3),))
    after = without_failed_replicas(shrunk, failed(3), alive(1, 2, 3), min_isr=2)
    assert after is not None
    assert (after.leader, after.leader_epoch, after.eligible_leaders) == (1, 6, ())


def test_a_failed_replica_that_did_not_count_leaves_the_epoch() -> None:
    behind = partition(isr=(1, 2))
    assert without_failed_replicas(behind, failed(3), alive(1, 2, 3), min_isr=1) is None
    after = without_failed_replicas(behind, failed(3), alive(1, 3), min_isr=1)
    assert after is not None
    assert (after.leader, after.leader_epoch, after.isr) == (1, 5, (1,)), "2 died, 3 was behind"


def test_several_fail_at_once() -> None:
    after = without_failed_replicas(partition(), failed(1, 2), alive(1, 2, 3), min_isr=1)
    assert after is not None
    assert (after.leader, after.isr) == (3, (3,))


def test_if_all_replicas_fail_each_of_them_may_lead_again() -> None:
    """They are the only ones known to have everything, and no replica can rejoin an empty ISR."""
    after = without_failed_replicas(partition(), failed(1, 2, 3), alive(1, 2, 3), min_isr=1)
    assert after is not None
    assert (after.leader, after.isr, after.last_known_leader) == (-1, (1, 2, 3), 1)
    assert without_failed_replicas(after, failed(1, 2, 3), alive(1, 2, 3), min_isr=1) is None
    repaired = without_failed_replicas(after, failed(1, 3), alive(1, 2, 3), min_isr=1)
    assert repaired is not None
    assert (repaired.leader, repaired.isr, repaired.leader_epoch) == (2, (2,), 7)


def test_the_only_replica_in_sync_fails_and_comes_back() -> None:
    """In a stale image another replica was in sync. The last known leader may be lost for good."""
    alone = partition(isr=(1,), last_known_leader=NodeId(2))
    after = without_failed_replicas(alone, failed(1), alive(1, 3), min_isr=1)
    assert after is not None
    assert (after.leader, after.isr, after.eligible_leaders) == (-1, (1,), ())
    back = elect(after, alive(1, 3), min_isr=1)
    assert back is not None
    assert (back.leader, back.isr) == (1, (1,))


def test_an_eligible_leader_that_has_everything_takes_over() -> None:
    shrunk = partition(isr=(1,), eligible_leaders=(NodeId(3),))
    after = without_failed_replicas(shrunk, failed(1), alive(1, 2, 3), min_isr=2)
    assert after is not None
    assert (after.leader, after.isr) == (3, (3,))
