"""Nodes come and go: registration, fencing, draining, and the elections that follow."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from highwater.controller.core.change_isr import MinIsr, replace_partitions
from highwater.controller.core.change_leader import without_failed_replicas
from highwater.controller.core.election import Candidates, elect, is_unclean
from highwater.controller.core.gateways import host_of
from highwater.controller.core.offline_replicas import OfflineByNode, nodes_without
from highwater.controller.core.outcome import PENDING_REVISION, Decision, UncleanElection, unchanged
from highwater.controller.core.reassign import settled as move_settled
from highwater.model.cluster import (
    ClusterDelta,
    ClusterImage,
    NodeState,
    PartitionState,
    TopicState,
)
from highwater.model.ids import NO_NODE, NodeId

_NOBODY: Final[frozenset[NodeId]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionRules:
    """What elections take from topic configs."""

    min_isr: MinIsr
    unclean: Callable[[TopicState], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A node's request to be admitted as a new incarnation."""

    node_id: NodeId
    address: str
    rack: str
    incarnation: str
    log_dirs: tuple[str, ...]
    previous_node_epoch: int
    """Of the incarnation whose data it has; -1 if it knows of none."""
    lineage: tuple[str, ...]
    """Incarnations whose records its directories hold without a gap (see `tail_check`)."""
    static_configs: Mapping[str, str] = field(default_factory=dict)


def next_node_id(image: ClusterImage) -> NodeId:
    """The lowest id from 1 on that no node has."""
    number = 1
    while number in image.nodes:
        number += 1
    return NodeId(number)


def id_for(image: ClusterImage, registration: Registration) -> NodeId:
    """The id asked for; else the one that this incarnation has been given, or a free one.

    It has one if the answer to an earlier try was lost.
    """
    if registration.node_id != NO_NODE:
        return registration.node_id
    given = (n.node_id for n in image.nodes.values() if n.incarnation == registration.incarnation)
    return next(given, next_node_id(image))


def admit(image: ClusterImage, registration: Registration) -> Decision[NodeId]:
    """The incarnation as a node, and its id; nothing changes if an earlier try has done it.

    A caller that gave up does not stop what it had asked for, so the image may know by now.
    """
    node_id = id_for(image, registration)
    before = image.nodes.get(node_id)
    if before is not None and before.incarnation == registration.incarnation:
        return unchanged(node_id)
    admitted = register(replace(registration, node_id=node_id), before)
    return Decision(delta=admitted.delta, result=node_id)


def same_place(before: NodeState, registration: Registration) -> bool:
    """True if the request comes from the holder of the former incarnation's data or address.

    Log directories are locked by their process, so whoever has them now is the successor.
    """
    if before.address == registration.address:
        return True
    if registration.previous_node_epoch == before.node_epoch:
        return True
    same_host = host_of(before.address) == host_of(registration.address)
    return same_host and bool(set(before.log_dirs) & set(registration.log_dirs))


def register(registration: Registration, before: NodeState | None = None) -> Decision[None]:
    """The new incarnation, fenced; its epoch is the revision of the commit.

    `before` is the former one: a node that is decommissioned remains so.
    """
    node = NodeState(
        node_id=registration.node_id,
        node_epoch=PENDING_REVISION,
        address=registration.address,
        rack=registration.rack or host_of(registration.address),
        incarnation=registration.incarnation,
        log_dirs=registration.log_dirs,
        fenced=True,
        draining=False,
        decommissioning=before is not None and before.decommissioning,
        static_configs=registration.static_configs,
    )
    return Decision(delta=ClusterDelta(revision=PENDING_REVISION, nodes=(node,)), result=None)


def change_nodes(
    image: ClusterImage,
    changed: Iterable[NodeState],
    rules: ElectionRules,
    *,
    lost_tail: frozenset[NodeId] = frozenset(),
    offline: OfflineByNode | None = None,
) -> Decision[int]:
    """Nodes whose flags change, and all elections that follow; the result is their number.

    `offline` is what nodes cannot serve: for these partitions they count as dead (KIP-112).
    Called without changes it only completes elections that an interrupted change left open.
    """
    nodes = dict(image.nodes)
    different = []
    for node in changed:
        if nodes[node.node_id] != node:
            nodes[node.node_id] = node
            different.append(node)
    candidates = replace(candidates_among(nodes.values()), lost_tail=lost_tail)
    failed = nodes_without(offline or {})
    elections = 0
    topics = []
    unclean: list[UncleanElection] = []
    for topic in image.topics.values():
        after = _elect_topic(topic, candidates, rules, failed.get(topic.topic_id, {}), unclean)
        if after is not None:
            topics.append(after[0])
            elections += after[1]
    if not topics and not different:
        return Decision(delta=None, result=0)
    delta = ClusterDelta(revision=PENDING_REVISION, nodes=tuple(different), topics=tuple(topics))
    return Decision(delta=delta, result=elections, unclean=tuple(unclean))


def candidates_among(nodes: Iterable[NodeState]) -> Candidates:
    """What elections know of these nodes by their flags."""
    known = tuple(nodes)
    return Candidates(
        alive=frozenset(n.node_id for n in known if not n.fenced),
        draining=frozenset(n.node_id for n in known if n.draining),
    )


def fence(node: NodeState) -> NodeState:
    """The node, which may not lead any more."""
    return replace(node, fenced=True)


def unfence(node: NodeState) -> NodeState:
    """The node, alive again."""
    return replace(node, fenced=False)


def drain(node: NodeState) -> NodeState:
    """The node on its way out."""
    return replace(node, draining=True)


def movable_leaderships(image: ClusterImage, node: NodeId) -> int:
    """Partitions that the node leads although another member of the ISR could."""
    ready = {n.node_id for n in image.nodes.values() if not n.fenced and not n.draining}
    return sum(
        1
        for topic in image.topics.values()
        for p in topic.partitions
        if p.leader == node and (ready & set(p.isr)) - {node}
    )


def unclean_election(topic: TopicState, partition: PartitionState) -> UncleanElection:
    """How it is told."""
    return UncleanElection(
        topic=topic.name,
        partition=partition.partition,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
    )


def leaderless(image: ClusterImage) -> int:
    """Partitions without a leader."""
    return sum(1 for t in image.topics.values() for p in t.partitions if p.leader == NO_NODE)


def _elect_topic(
    topic: TopicState,
    candidates: Candidates,
    rules: ElectionRules,
    failed: Mapping[int, frozenset[NodeId]],
    told_unclean: list[UncleanElection],
) -> tuple[TopicState, int] | None:
    settled = not failed
    for p in topic.partitions:
        # The usual case, checked without a call: a healthy partition that nothing happens to.
        if (
            p.leader not in candidates.alive
            or not candidates.alive.issuperset(p.isr)
            or not candidates.draining.isdisjoint(p.isr)
            or not candidates.lost_tail.isdisjoint(p.isr)
            or not candidates.lost_tail.isdisjoint(p.eligible_leaders)
            or p.adding_replicas
            or p.removing_replicas
        ):
            settled = False
            break
    if settled:
        return None
    min_isr, unclean = rules.min_isr(topic), rules.unclean(topic)
    changed = {}
    for p in topic.partitions:
        here = failed.get(p.partition, _NOBODY)
        if here:
            after = without_failed_replicas(p, here, candidates, min_isr=min_isr, unclean=unclean)
        else:
            after = elect(p, candidates, min_isr=min_isr, unclean=unclean)
        if p.adding_replicas or p.removing_replicas:
            able = replace(candidates, alive=candidates.alive - here)
            after = move_settled(p, after, able, min_isr=min_isr)
        if after is not None:
            changed[p.partition] = after
            lost = candidates.lost_tail | here
            if is_unclean(p, after, replace(candidates, lost_tail=lost) if here else candidates):
                told_unclean.append(unclean_election(topic, after))
    return (replace_partitions(topic, changed), len(changed)) if changed else None
