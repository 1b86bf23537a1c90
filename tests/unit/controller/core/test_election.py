"""Elections: ISR first, then eligible leaders, epochs always up (KIP-966)."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.controller.core.election import Candidates, after_isr_change, elect
from highwater.model.cluster import PartitionState
from highwater.model.ids import LeaderEpoch, NodeId


def partition(**fields: Any) -> PartitionState:
    values: dict[str, Any] = {
        "partition": 0,
        "leader": NodeId(1),
        "leader_epoch": LeaderEpoch(5),
        "partition_epoch": 7,
        "replicas": (1, 2, 3),
        "isr": (1, 2, 3),
        "last_known_leader": NodeId(1),
        **fields,
    }
    return PartitionState(**values)


def alive(
    *nodes: int,
    draining: tuple[int, ...] = (),
    lost: tuple[int, ...] = (),
    full: tuple[int, ...] = (),
) -> Candidates:
    return Candidates(
        alive=frozenset(map(NodeId, nodes)),
        draining=frozenset(map(NodeId, draining)),
        lost_tail=frozenset(map(NodeId, lost)),
        full=frozenset(map(NodeId, full)),
    )


def test_nothing_to_do() -> None:
    assert elect(partition(), alive(1, 2, 3), min_isr=1) is None


def test_the_next_in_sync_replica_takes_over() -> None:
    after = elect(partition(isr=(1, 3)), alive(2, 3), min_isr=1)
    assert after is not None
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (3, 6, 8)
    assert after.isr == (3,)


def test_a_dead_follower_leaves_the_isr_without_a_new_epoch() -> None:
    after = elect(partition(), alive(1, 3), min_isr=1)
    assert after is not None
    assert (after.leader, after.leader_epoch, after.isr) == (1, 5, (1, 3))


def test_the_last_members_of_the_isr_are_remembered() -> None:
    down = elect(partition(isr=(1, 2)), alive(3), min_isr=1)
    assert down is not None
    assert (down.leader, down.leader_epoch, down.isr) == (-1, 6, (1, 2))
    assert elect(down, alive(3), min_isr=1) is None, "3 may miss acknowledged records"
    back = elect(down, alive(2, 3), min_isr=1)
    assert back is not None
    assert (back.leader, back.leader_epoch, back.isr) == (2, 7, (2,))


def test_eligible_leaders_below_min_isr() -> None:
    one_left = elect(partition(isr=(1, 2)), alive(1, 3), min_isr=2)
    assert one_left is not None
    assert (one_left.isr, one_left.eligible_leaders) == ((1,), (2,))
    none_left = elect(one_left, alive(3), min_isr=2)
    assert none_left is not None
    assert none_left.leader == -1
    second = elect(none_left, alive(2, 3), min_isr=2)
    assert second is not None
    assert (second.leader, second.isr, second.eligible_leaders) == (2, (2,), (1,))


def test_enough_in_sync_replicas_end_eligibility() -> None:
    after = after_isr_change(
        partition(isr=(1,), eligible_leaders=(2, 3)), (NodeId(1), NodeId(2)), min_isr=2
    )
    assert (after.isr, after.eligible_leaders, after.partition_epoch) == ((1, 2), (), 8)
    assert after.leader_epoch == 5


def test_unclean_only_where_allowed() -> None:
    offline = partition(leader=NodeId(-1), isr=(1,))
    assert elect(offline, alive(2, 3), min_isr=1) is None
    unclean = elect(offline, alive(2, 3), min_isr=1, unclean=True)
    assert unclean is not None
    assert (unclean.leader, unclean.isr, unclean.eligible_leaders) == (2, (2,), ())


def test_a_lost_tail_is_out_of_isr_and_eligibility() -> None:
    after = elect(partition(isr=(1,), eligible_leaders=(2,)), alive(2, lost=(1,)), min_isr=2)
    assert after is not None
    assert (after.leader, after.isr) == (2, (2,))
    assert 1 not in after.eligible_leaders


def test_the_last_known_leader_leads_if_no_replica_is_eligible() -> None:
    down = elect(partition(isr=(1,)), alive(3, lost=(1,)), min_isr=1)
    assert down is not None
    assert (down.leader, down.isr, down.last_known_leader) == (-1, (), 1)
    back = elect(down, alive(1, 3), min_isr=1)
    assert back is not None
    assert (back.leader, back.isr) == (1, (1,))


def test_a_leader_that_lost_its_tail_leads_again_in_a_new_epoch_only() -> None:
    before = partition(leader=1, isr=(1,), last_known_leader=1)
    back = elect(before, alive(1, lost=(1,)), min_isr=1, unclean=True)
    assert back is not None
    assert (back.leader, back.isr) == (1, (1,))
    assert back.leader_epoch == before.leader_epoch + 1


def test_a_single_replica_keeps_what_it_has() -> None:
    single = partition(replicas=(1,), isr=(1,))
    down = elect(single, alive(lost=(1,)), min_isr=1)
    assert down is not None
    assert (down.leader, down.isr) == (-1, (1,))


def test_a_draining_leader_hands_over_if_it_can() -> None:
    moved = elect(partition(isr=(1, 2)), alive(1, 2, 3, draining=(1,)), min_isr=1)
    assert moved is not None
    assert (moved.leader, moved.isr) == (2, (2,))
    assert elect(partition(isr=(1,)), alive(1, 2, 3, draining=(1,)), min_isr=1) is None


def test_a_node_with_a_full_disk_begins_to_lead_only_as_the_last_resort() -> None:
    after = elect(partition(), alive(2, 3, full=(2,)), min_isr=1)
    assert after is not None
    assert (after.leader, after.isr) == (3, (2, 3)), "it stays in sync"
    both = elect(partition(), alive(2, 3, full=(2, 3)), min_isr=1)
    assert both is not None
    assert both.leader == 2
    draining = elect(partition(), alive(1, 2, draining=(1,), full=(2,)), min_isr=1)
    assert draining is not None
    assert draining.leader == 2, "a node that stops cannot lead for long"
    shrunk = partition(isr=(1, 2), eligible_leaders=(3,))
    in_sync = elect(shrunk, alive(2, 3, full=(2,)), min_isr=2)
    assert in_sync is not None
    assert in_sync.leader == 2, "the eligible one may have less"


def test_a_leader_stays_when_its_disk_is_full() -> None:
    """It hands over first."""
    assert elect(partition(), alive(1, 2, 3, full=(1,)), min_isr=1) is None


def test_what_is_known_of_one_partition() -> None:
    known = alive(1, 2, 3)
    nobody = frozenset[NodeId]()
    assert known.of_partition(failed=nobody, full=nobody) is known
    one = known.of_partition(failed=frozenset({NodeId(1)}), full=frozenset({NodeId(2)}))
    assert one == alive(2, 3, full=(2,))


nodes = st.sampled_from([1, 2, 3])


@given(st.lists(st.tuples(st.sets(nodes), st.sets(nodes), st.integers(1, 2)), max_size=12))
@settings(max_examples=300, deadline=None)
def test_invariants_over_any_history(steps: list[tuple[set[int], set[int], int]]) -> None:
    """For any failures and returns: epochs only grow, the leader is in sync, alive and trusted."""
    state = partition()
    for up, draining, min_isr in steps:
        candidates = alive(*up, draining=tuple(draining & up))
        trusted = {*state.isr, *state.eligible_leaders}
        after = elect(state, candidates, min_isr=min_isr)
        if after is None:
            after = replace(state)
        else:
            assert after.partition_epoch == state.partition_epoch + 1
        moved = after.leader != state.leader
        assert after.leader_epoch == state.leader_epoch + (1 if moved else 0)
        if after.leader != -1:
            assert after.leader in up
            assert after.leader in after.isr
            assert after.leader in trusted
            assert set(after.isr) <= up
        assert after.isr, "somebody always holds everything"
        assert not set(after.isr) & set(after.eligible_leaders)
        assert {*after.isr, *after.eligible_leaders} <= trusted
        assert elect(after, candidates, min_isr=min_isr) is None, "an election is final"
        state = after
