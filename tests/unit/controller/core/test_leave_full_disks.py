"""Leaders on disks that are nearly full give way to replicas with space, once."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.controller.core.balance_leaders import balance, unbalanced
from highwater.controller.core.election import after_isr_change
from highwater.controller.core.full_replicas import FullReplicas
from highwater.controller.core.leave_full_disks import finding_crowded, leave_full_disks
from highwater.controller.core.membership import ElectionRules, change_nodes, fence, unfence
from highwater.controller.core.outcome import PENDING_REVISION, Decision
from highwater.controller.core.partition_index import index_of
from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.model.ids import NO_NODE, NodeId, TopicId
from highwater.model.steps import finish
from tests.support.controller_images import changed_partitions, image_with, topic_state

TOPIC = topic_state("t", [(1, 2, 3), (2, 3, 1), (1, 2, 3)])
ID = TOPIC.topic_id
ALL = {ID: frozenset(range(3))}
KEYS = [(ID, number) for number in range(3)]


def full(*nodes: int) -> FullReplicas:
    made = FullReplicas(lambda: 0)
    for node in nodes:
        made.note(NodeId(node), ALL)
    return made


def found(image, told, **fields):
    fields = {"limit": 100, **fields}
    return sorted(
        finish(finding_crowded(image, index_of(image), told.told, told.avoided, {}, **fields))
    )


def left(image, told, *, keys=None, offline=None):
    """(partition, new leader) of those that move."""
    decision = leave_full_disks(
        image,
        KEYS if keys is None else keys,
        told.told,
        told.avoided,
        offline or {},
    )
    moved = [] if decision.delta is None else changed_partitions(decision.delta)
    assert decision.result == len(moved)
    return [(p.partition, p.leader) for p in moved]


def test_the_first_replica_in_sync_with_space_leads_in_the_next_epoch():
    image = image_with(3, topics=[TOPIC])
    assert left(image, full(1)) == [(0, 2), (2, 2)]
    assert left(image, full(1, 2)) == [(0, 3), (1, 3), (2, 3)]
    decision = leave_full_disks(image, KEYS, full(1).told, lambda *_: frozenset(), {})
    (first, _) = changed_partitions(decision.delta)
    assert (first.leader_epoch, first.partition_epoch, first.isr) == (6, 8, (1, 2, 3))


def test_what_is_found_is_what_can_move():
    image = image_with(3, topics=[TOPIC])
    told = full(1)

    assert found(image, told) == [(ID, 0), (ID, 2)]
    assert found(image, told, resting={(ID, 0)}) == [(ID, 2)]
    assert len(found(image, told, limit=1)) == 1
    lone = replace(TOPIC.partitions[0], isr=(NodeId(1),))
    some = image_with(3, topics=[replace(TOPIC, partitions=(lone, *TOPIC.partitions[1:]))])
    assert found(some, told) == [(ID, 2)]
    told = full(1, 2, 3)
    assert found(image, told) == []


def test_nobody_moves_to_a_full_disk_or_without_need():
    image = image_with(3, topics=[TOPIC])
    assert left(image, full(1, 2, 3)) == []
    assert left(image, full()) == []
    assert left(image, full(3), keys=KEYS) == [], "it leads nothing"
    unknown = [(ID, 9), (TopicId(b"gone" * 4), 0)]
    assert left(image, full(1), keys=unknown) == []


def test_only_those_that_can_lead_do():
    lone = replace(TOPIC.partitions[0], isr=(NodeId(1),))
    image = image_with(3, topics=[replace(TOPIC, partitions=(lone, *TOPIC.partitions[1:]))])
    assert left(image, full(1)) == [(2, 2)], "2 is not in sync"
    assert left(image, full(1), offline={NodeId(2): {ID: frozenset({2})}}) == [(2, 3)]
    draining = replace(image.nodes[NodeId(2)], draining=True)
    stopping = replace(image, nodes={**image.nodes, NodeId(2): draining})
    assert left(stopping, full(1)) == [(2, 3)]
    assert left(image_with(3, topics=[TOPIC], fenced=[2, 3]), full(1)) == []


def test_one_that_has_just_had_no_space_is_not_chosen_but_stays():
    told = full(1, 2)
    told.note(NodeId(2), {})
    image = image_with(2, topics=[topic_state("t", [(1, 2), (2, 1)])])
    assert left(image, told) == []


# ---- any history ----

PAUSE_MS = 10
NODES = (1, 2, 3)
node = st.sampled_from(NODES)
step = st.one_of(
    st.tuples(st.sampled_from(["dies", "returns", "full", "space", "catches up"]), node),
    st.tuples(st.sampled_from(["leave", "balance", "time"]), st.just(0)),
)


class Cluster:
    """The decisions of a controller, carried out at once."""

    def __init__(self):
        self.image: ClusterImage = image_with(3, topics=[TOPIC])
        self.now_ms = 0
        self.told = FullReplicas(lambda: self.now_ms, pause_ms=PAUSE_MS)
        self.rules = ElectionRules(
            min_isr=lambda _: 1, unclean=lambda _: False, avoided=self.told.avoided
        )

    @property
    def alive(self):
        return {n.node_id for n in self.image.nodes.values() if not n.fenced}

    def take(self, decision: Decision[int]) -> int:
        """The number of partitions that have another leader."""
        if decision.delta is None:
            return 0
        before = self.leaders()
        self.image = self.image.apply(replace(decision.delta, revision=self.image.revision + 1))
        return sum(a != b for a, b in zip(before, self.leaders(), strict=True))

    def leaders(self):
        return [p.leader for p in self.image.topics[ID].partitions]

    def leave(self):
        keys = found(self.image, self.told)
        return self.take(leave_full_disks(self.image, keys, self.told.told, self.told.avoided, {}))

    def balance(self):
        chosen = unbalanced(self.image, index_of(self.image), {}, self.told.avoided)
        return self.take(balance(self.image, chosen, {}, self.told.avoided))

    def catch_up(self, number):
        """Leaders add the node to their ISRs."""
        states = tuple(
            after_isr_change(p, (*p.isr, NodeId(number)), min_isr=1)
            for p in self.image.topics[ID].partitions
            if number not in p.isr and p.leader != NO_NODE and number in self.alive
        )
        if states:
            delta = ClusterDelta(revision=PENDING_REVISION, partitions={ID: states})
            self.take(Decision(delta=delta, result=0))

    def do(self, what, number):
        known = self.image.nodes.get(NodeId(number))
        if what in ("dies", "returns"):
            changed = fence(known) if what == "dies" else unfence(known)
            self.take(change_nodes(self.image, [changed], self.rules))
        elif what in ("full", "space"):
            self.told.note(NodeId(number), ALL if what == "full" else {})
        elif what == "catches up":
            self.catch_up(number)
        elif what == "time":
            self.now_ms += PAUSE_MS // 2
        else:
            getattr(self, what)()

    def check(self):
        for p in self.image.topics[ID].partitions:
            if self.alive.intersection(p.isr):
                assert p.leader in self.alive.intersection(p.isr), p


@given(st.lists(step, max_size=40))
@settings(max_examples=150, deadline=None)
def test_no_history_leaves_a_partition_without_a_leader_or_leaders_without_rest(steps):
    """However disks fill and nodes die: who is in sync and lives leads, and with the same reports
    leaders stop to move, away from full disks if that is possible.
    """
    cluster = Cluster()
    for what, number in steps:
        cluster.do(what, number)
        cluster.check()
    for later_ms in (0, PAUSE_MS):
        cluster.now_ms += later_ms
        moved = [cluster.leave() + cluster.balance() for _ in range(3)]
        assert moved[1:] == [0, 0], "one round of both is enough"
        cluster.check()
    told = cluster.told.told
    for p in cluster.image.topics[ID].partitions:
        able = cluster.alive.intersection(p.isr)
        if p.leader in told:
            assert able <= told.keys(), "nobody in sync has space"
        elif p.replicas[0] in able - told.keys():
            assert p.leader == p.replicas[0]


@given(st.lists(st.sampled_from(["full", "space", "leave", "balance"]), max_size=60))
@settings(max_examples=100, deadline=None)
def test_a_disk_around_its_mark_moves_a_leader_once(steps):
    cluster = Cluster()
    moved = 0
    for what in steps:
        if what in ("leave", "balance"):
            moved += getattr(cluster, what)()
        else:
            cluster.do(what, 1)
    assert moved <= 2, "one for each partition that it leads"
