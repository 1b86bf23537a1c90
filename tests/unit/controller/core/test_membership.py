"""Nodes register, are fenced, drain and leave."""

from dataclasses import replace
from typing import Any

from highwater.controller.core.membership import (
    ElectionRules,
    Registration,
    admit,
    change_nodes,
    drain,
    fence,
    has_movable_leadership,
    id_for,
    next_node_id,
    register,
    same_place,
    unfence,
)
from highwater.controller.core.outcome import Decision
from highwater.controller.core.partition_index import index_of
from highwater.controller.store.image_store import operations
from highwater.controller.store.port import chunks
from highwater.model.cluster import ClusterImage
from highwater.model.ids import NO_NODE, NodeId
from tests.support.controller_images import (
    changed_partitions,
    image_with,
    node_state,
    topic_state,
)

RULES = ElectionRules(min_isr=lambda _: 1, unclean=lambda _: False)


def applied(image: ClusterImage, decision: Decision[int]) -> ClusterImage:
    assert decision.delta is not None
    return image.apply(replace(decision.delta, revision=image.revision + 1))


def registration(**fields: Any) -> Registration:
    values: dict[str, Any] = {
        "node_id": NodeId(1),
        "address": "host1:9300",
        "rack": "",
        "incarnation": "new",
        "log_dirs": ("/data",),
        "previous_node_epoch": -1,
        "lineage": (),
        **fields,
    }
    return Registration(**values)


def test_free_ids() -> None:
    assert next_node_id(image_with(0)) == 1
    assert next_node_id(image_with(3)) == 4


def test_a_registration_is_fenced_and_its_rack_is_its_host() -> None:
    delta = register(registration()).delta
    assert delta is not None
    (node,) = delta.nodes
    assert (node.fenced, node.draining, node.rack) == (True, False, "host1")
    named = register(registration(rack="r9")).delta
    assert named is not None
    assert named.nodes[0].rack == "r9"


def test_a_node_that_is_taken_out_of_use_remains_so() -> None:
    before = replace(node_state(1), decommissioning=True)
    delta = register(registration(), before).delta
    assert delta is not None
    assert delta.nodes[0].decommissioning
    fresh = register(registration(), node_state(1)).delta
    assert fresh is not None
    assert not fresh.nodes[0].decommissioning


def test_an_incarnation_is_admitted_once() -> None:
    """Its node epoch is the revision of its only record in the store."""
    admitted = admit(image_with(2), registration(node_id=NodeId(3)))
    assert admitted.delta is not None
    assert [n.node_id for n in admitted.delta.nodes] == [admitted.result] == [3]
    known = image_with(3)
    again = admit(known, registration(node_id=NodeId(3), incarnation="i3"))
    assert (again.delta, again.result) == (None, 3)


def test_an_incarnation_without_an_id_keeps_the_one_it_was_given() -> None:
    """The answer to its first registration was lost or delayed."""
    known = image_with(3)
    unnamed = registration(node_id=NO_NODE, incarnation="i2")
    assert id_for(known, unnamed) == 2
    assert (admit(known, unnamed).delta, admit(known, unnamed).result) == (None, 2)
    assert admit(known, registration(node_id=NO_NODE)).result == 4


def test_a_dead_leader_is_followed_by_one_whose_disk_has_space() -> None:
    topic = topic_state("t", [(1, 2, 3), (1, 2, 3), (1, 2)])
    image = image_with(3, topics=[topic])
    rules = replace(
        RULES, avoided=lambda _, number: frozenset({NodeId(2)} if number != 1 else {NodeId(3)})
    )
    decision = change_nodes(image, [fence(image.nodes[NodeId(1)])], rules)
    assert [p.leader for p in changed_partitions(decision.delta)] == [3, 2, 2]


def test_an_election_ends_a_move_that_it_makes_possible() -> None:
    topic = topic_state("t", [(1, 2)])
    moving = replace(
        topic.partitions[0],
        replicas=(NodeId(2), NodeId(3), NodeId(1)),
        isr=(NodeId(1), NodeId(2), NodeId(3)),
        adding_replicas=(NodeId(3),),
        removing_replicas=(NodeId(1),),
    )
    image = image_with(3, topics=[replace(topic, partitions=(moving,))])
    decision = change_nodes(image, [fence(image.nodes[NodeId(1)])], RULES)
    assert decision.delta is not None
    (after,) = changed_partitions(decision.delta)
    assert (after.replicas, after.isr, after.leader) == ((2, 3), (2, 3), 2)
    assert after.partition_epoch == moving.partition_epoch + 1


def test_an_election_leaves_a_move_to_the_leader_that_it_removes() -> None:
    """That one lives, and would lose what it alone has; it is asked to hand over (`hand_over`)."""
    topic = topic_state("t", [(1, 2)])
    moving = replace(
        topic.partitions[0],
        replicas=(NodeId(2), NodeId(3), NodeId(1)),
        isr=(NodeId(1), NodeId(2), NodeId(3)),
        adding_replicas=(NodeId(3),),
        removing_replicas=(NodeId(1),),
    )
    image = image_with(4, topics=[replace(topic, partitions=(moving,))])
    decision = change_nodes(image, [fence(image.nodes[NodeId(4)])], RULES)
    assert decision.delta is not None
    assert list(changed_partitions(decision.delta)) == []
    decision = change_nodes(image, [fence(image.nodes[NodeId(2)])], RULES)
    assert decision.delta is not None
    (after,) = changed_partitions(decision.delta)
    assert (after.leader, after.isr, after.removing_replicas) == (1, (1, 3), (1,))


def test_host_and_directories_or_the_previous_epoch_identify_a_successor() -> None:
    before = node_state(1)
    assert same_place(before, registration())
    elsewhere = registration(address="host2:1", log_dirs=("/data",))
    assert not same_place(before, elsewhere)
    assert same_place(before, replace(elsewhere, previous_node_epoch=11))
    assert same_place(before, registration(address="host1:1"))
    assert not same_place(before, registration(address="host1:1", log_dirs=("/else",)))


def test_fencing_elects_in_bulk() -> None:
    topics = [topic_state(f"t{n}", [(1, 2), (2, 1), (3, 1)]) for n in range(40)]
    image = image_with(3, topics=topics)
    decision = change_nodes(image, [fence(image.nodes[NodeId(1)])], RULES)
    assert decision.delta is not None
    assert decision.result == 120, "two leaders' ISRs shrink and one leader changes, per topic"
    after = image.apply(replace(decision.delta, revision=101))
    assert all(p.leader not in (1, -1) for t in after.topics.values() for p in t.partitions)
    assert index_of(after).leaderless == 0
    again = change_nodes(after, (), RULES)
    assert again.delta is None, "settled"


def test_a_single_replica_waits_for_its_node() -> None:
    image = image_with(2, topics=[topic_state("t", [(1,), (2,)])])
    down = change_nodes(image, [fence(image.nodes[NodeId(1)])], RULES)
    assert down.delta is not None
    image = image.apply(replace(down.delta, revision=101))
    assert index_of(image).leaderless == 1
    up = change_nodes(image, [unfence(image.nodes[NodeId(1)])], RULES)
    assert up.delta is not None
    image = image.apply(replace(up.delta, revision=102))
    state = next(iter(image.topics.values())).partitions[0]
    assert (state.leader, state.leader_epoch, state.isr) == (1, 7, (1,))


def test_draining() -> None:
    image = image_with(2, topics=[topic_state("t", [(1, 2), (1,)])])
    assert has_movable_leadership(image, index_of(image), NodeId(1))
    decision = change_nodes(image, [drain(image.nodes[NodeId(1)])], RULES)
    assert decision.delta is not None
    image = image.apply(replace(decision.delta, revision=101))
    assert not has_movable_leadership(image, index_of(image), NodeId(1))
    first, second = next(iter(image.topics.values())).partitions
    assert (first.leader, second.leader) == (2, 1), "a sole replica leads to the end"


def test_min_isr_and_unclean_are_the_topics() -> None:
    image = image_with(2, topics=[topic_state("t", [(1, 2)])])
    strict = ElectionRules(min_isr=lambda _: 2, unclean=lambda _: False)
    decision = change_nodes(image, [fence(image.nodes[NodeId(2)])], strict)
    assert decision.delta is not None
    assert changed_partitions(decision.delta)[0].eligible_leaders == (2,)


def test_a_node_does_not_lead_its_offline_replicas() -> None:
    topic = topic_state("t", [(1,), (1, 2), (1,)])
    image = image_with(2, topics=[topic, topic_state("other", [(1,)])])
    offline = {NodeId(1): {topic.topic_id: frozenset({0, 1})}}
    decision = change_nodes(image, (), RULES, offline=offline)
    assert decision.delta is not None
    assert list(decision.delta.partitions) == [topic.topic_id]
    image = image.apply(replace(decision.delta, revision=101))
    alone, shared, sound = image.topics[topic.topic_id].partitions
    assert (alone.leader, alone.leader_epoch, alone.isr) == (-1, 6, (1,)), "it has nobody else"
    assert (shared.leader, shared.isr) == (2, (2,))
    assert sound == topic.partitions[2]
    assert change_nodes(image, (), RULES, offline=offline).delta is None, "settled"
    # Nor when it comes back with the same directory.
    fenced = change_nodes(image, [fence(image.nodes[NodeId(1)])], RULES, offline=offline)
    assert fenced.delta is not None
    image = image.apply(replace(fenced.delta, revision=102))
    back = change_nodes(image, [unfence(image.nodes[NodeId(1)])], RULES, offline=offline)
    assert back.delta is not None
    image = image.apply(replace(back.delta, revision=103))
    assert [p.leader for p in image.topics[topic.topic_id].partitions] == [-1, 2, 1]
    repaired = change_nodes(image, (), RULES, offline={NodeId(1): {}})
    assert repaired.delta is not None
    image = image.apply(replace(repaired.delta, revision=104))
    assert [p.leader for p in image.topics[topic.topic_id].partitions] == [1, 2, 1]


def test_a_failed_replica_is_not_eligible_until_it_has_caught_up() -> None:
    topic = topic_state("t", [(1, 2, 3)])
    image = image_with(3, topics=[topic])
    strict = ElectionRules(min_isr=lambda _: 3, unclean=lambda _: False)
    offline = {NodeId(1): {topic.topic_id: frozenset({0})}}
    decision = change_nodes(image, (), strict, offline=offline)
    assert decision.delta is not None
    (after,) = changed_partitions(decision.delta)
    assert (after.leader, after.isr) == (2, (2, 3))
    assert after.eligible_leaders == (), "it may have lost what it had not synced"
    # A node that died in the same state would be eligible.
    died = change_nodes(image, [fence(image.nodes[NodeId(1)])], strict)
    assert died.delta is not None
    assert changed_partitions(died.delta)[0].eligible_leaders == (1,)


def test_a_topic_may_choose_an_unclean_leader_for_a_failed_one() -> None:
    topic = topic_state("t", [(1, 2)])
    shrunk = replace(topic.partitions[0], isr=(NodeId(1),))
    image = image_with(2, topics=[replace(topic, partitions=(shrunk,))])
    offline = {NodeId(1): {topic.topic_id: frozenset({0})}}
    decision = change_nodes(image, (), RULES, offline=offline)
    assert decision.delta is not None
    assert changed_partitions(decision.delta)[0].leader == -1
    loose = ElectionRules(min_isr=lambda _: 1, unclean=lambda _: True)
    decision = change_nodes(image, (), loose, offline=offline)
    assert decision.delta is not None
    after = changed_partitions(decision.delta)[0]
    assert (after.leader, after.isr, after.leader_epoch) == (2, (2,), 6)


def test_a_node_that_lost_its_tail_leaves_isr_and_eligible_leaders() -> None:
    topic = topic_state("t", [(1, 2), (1,)])
    image = image_with(2, topics=[topic])
    strict = ElectionRules(min_isr=lambda _: 2, unclean=lambda _: False)
    lost = frozenset({NodeId(1)})
    down = [fence(image.nodes[NodeId(1)])]
    decision = change_nodes(image, down, strict, lost_tail=lost)
    assert decision.delta is not None
    shared, alone = changed_partitions(decision.delta)
    assert (shared.leader, shared.isr, shared.eligible_leaders) == (2, (2,), ())
    assert (alone.leader, alone.isr) == (-1, (1,)), "what a single replica has is what there is"


def test_elections_that_may_lose_records_are_reported() -> None:
    """Where the topic allows it, or where the last leader is elected though it lost records."""
    topic = topic_state("t", [(1, 2), (2, 1)])
    image = image_with(2, topics=[topic])
    first, second = NodeId(1), NodeId(2)
    down = change_nodes(image, [fence(image.nodes[first])], RULES)
    assert (down.result, down.unclean) == (2, ())
    one_left = applied(image, down)
    both = change_nodes(one_left, [fence(one_left.nodes[second])], RULES)
    assert both.unclean == ()
    nobody = applied(one_left, both)
    allowed = ElectionRules(min_isr=lambda _: 1, unclean=lambda _: True)
    up = [unfence(nobody.nodes[first])]
    assert change_nodes(nobody, up, RULES).unclean == ()
    unclean = change_nodes(nobody, up, allowed).unclean
    assert [(e.topic, e.partition, e.leader) for e in unclean] == [("t", 0, 1), ("t", 1, 1)]
    came_back = [unfence(nobody.nodes[second])]
    assert change_nodes(nobody, came_back, allowed).unclean == (), "it is the ISR"
    lost = change_nodes(nobody, came_back, RULES, lost_tail=frozenset({second}))
    assert [(e.partition, e.leader) for e in lost.unclean] == [(0, 2), (1, 2)]
    failed = {second: {topic.topic_id: frozenset({0})}}
    broken = change_nodes(one_left, [unfence(one_left.nodes[first])], allowed, offline=failed)
    assert [(e.partition, e.leader) for e in broken.unclean] == [(0, 1)]


def test_the_death_of_a_node_of_10_000_partitions_is_a_few_transactions() -> None:
    topics = [topic_state(f"t{n}", [(1, 2, 3)] * 100) for n in range(100)]
    image = image_with(3, topics=topics)
    decision = change_nodes(image, [fence(image.nodes[NodeId(1)])], RULES)
    assert decision.delta is not None
    assert decision.result == 10_000
    transactions = list(chunks(operations(image, decision.delta)))
    assert sum(map(len, transactions)) == 10_001
    assert len(transactions) <= 4
