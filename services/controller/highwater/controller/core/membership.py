"""Nodes come and go: registration, fencing, draining, and the elections that follow."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from highwater.controller.core.change_isr import MinIsr
from highwater.controller.core.change_leader import without_failed_replicas
from highwater.controller.core.election import Candidates, elect, is_unclean
from highwater.controller.core.full_replicas import Avoided, nobody
from highwater.controller.core.gateways import host_of, node_without_port
from highwater.controller.core.offline_replicas import OfflineByNode, nodes_without
from highwater.controller.core.outcome import (
    PENDING_REVISION,
    Changes,
    Decision,
    Refusal,
    UncleanElection,
    delta_of,
    unchanged,
)
from highwater.controller.core.partition_index import (
    PartitionIndex,
    PartitionKey,
    in_order,
    index_of,
)
from highwater.controller.core.reassign import settled as move_settled
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import (
    ClusterDelta,
    ClusterImage,
    NodeState,
    PartitionState,
    TopicState,
)
from highwater.model.ids import NO_NODE, NodeId
from highwater.model.steps import Steps, finish

_NOBODY: Final[frozenset[NodeId]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionRules:
    """What elections take from topic configs, and from what nodes say of their disks."""

    min_isr: MinIsr
    unclean: Callable[[TopicState], bool]
    avoided: Avoided = nobody


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


def admit(image: ClusterImage, registration: Registration) -> Decision[NodeId | Refusal]:
    """The incarnation as a node, and its id; nothing changes if an earlier try has done it.

    Refused is node 0 where a gateway has a block of ports.

    A caller that gave up does not stop what it had asked for, so the image may know by now.
    """
    node_id = id_for(image, registration)
    before = image.nodes.get(node_id)
    if before is not None and before.incarnation == registration.incarnation:
        return unchanged(node_id)
    why = node_without_port([node_id], image.gateways.values())
    if why is not None:
        return unchanged(Refusal(code=ErrorCode.INVALID_REQUEST, message=why))
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
    index: PartitionIndex | None = None,
    lost_tail: frozenset[NodeId] = frozenset(),
    offline: OfflineByNode | None = None,
) -> Decision[int]:
    """Nodes whose flags change, and all elections that follow; the result is their number.

    `index` is the image's; without it, it is made first. `offline` is what nodes cannot serve: for
    these partitions they count as dead (KIP-112). Called without changes it only completes
    elections that an interrupted change left open.
    """
    return finish(
        changing_nodes(
            image,
            changed,
            rules,
            index=index_of(image) if index is None else index,
            lost_tail=lost_tail,
            offline=offline,
        )
    )


def changing_nodes(
    image: ClusterImage,
    changed: Iterable[NodeState],
    rules: ElectionRules,
    *,
    index: PartitionIndex,
    lost_tail: frozenset[NodeId] = frozenset(),
    offline: OfflineByNode | None = None,
) -> Steps[Decision[int]]:
    """`change_nodes` in steps."""
    nodes = dict(image.nodes)
    different = []
    for node in changed:
        if nodes[node.node_id] != node:
            nodes[node.node_id] = node
            different.append(node)
    candidates = replace(candidates_among(nodes.values()), lost_tail=lost_tail)
    failed = nodes_without(offline or {})
    elections = _Elections(candidates, rules)
    concerned = _concerned(index, candidates)
    concerned.update((t, number) for t, numbers in failed.items() for number in numbers)
    keys = yield from in_order(concerned)
    for topic_id, number in keys:
        topic = image.topics.get(topic_id)
        if topic is not None and number < len(topic.partitions):  # A node may not know yet.
            elections.hold(topic, number, failed.get(topic_id, {}).get(number, _NOBODY))
        yield
    return Decision(
        delta=delta_of(elections.changed, different),
        result=elections.count,
        unclean=tuple(elections.unclean),
    )


def _concerned(index: PartitionIndex, candidates: Candidates) -> set[PartitionKey]:
    """Partitions that are not led by a node that stays, with an ISR of nodes that stay."""
    found: set[PartitionKey] = set(index.moving)
    for members in (index.led, index.in_sync):
        for node, keys in members.items():
            if node not in candidates.alive or node in candidates.draining:
                found |= keys
    for node in candidates.lost_tail:
        found |= index.replicas.get(node, frozenset())
    return found


class _Elections:
    """The elections of one decision."""

    def __init__(self, candidates: Candidates, rules: ElectionRules) -> None:
        self._candidates = candidates
        self._rules = rules
        self._of_topic: tuple[TopicState | None, int, bool] = (None, 0, False)
        """What the rules say of the topic that was asked for last."""
        self.changed: Changes = {}
        self.count = 0
        self.unclean: list[UncleanElection] = []

    def hold(self, topic: TopicState, number: int, failed: frozenset[NodeId]) -> None:
        """One partition's election, if it needs one; `failed` nodes cannot serve it."""
        if self._of_topic[0] is not topic:
            self._of_topic = (topic, self._rules.min_isr(topic), self._rules.unclean(topic))
        _, min_isr, unclean = self._of_topic
        full = self._rules.avoided(topic.topic_id, number)
        candidates = replace(self._candidates, full=full) if full else self._candidates
        before = topic.partitions[number]
        if failed:
            after = without_failed_replicas(
                before, failed, candidates, min_isr=min_isr, unclean=unclean
            )
        else:
            after = elect(before, candidates, min_isr=min_isr, unclean=unclean)
        if before.adding_replicas or before.removing_replicas:
            able = replace(candidates, alive=candidates.alive - failed)
            after = move_settled(before, after, able, min_isr=min_isr)
        if after is None:
            return
        self.changed.setdefault(topic.topic_id, {})[number] = after
        self.count += 1
        if failed:
            candidates = replace(candidates, lost_tail=candidates.lost_tail | failed)
        if is_unclean(before, after, candidates):
            self.unclean.append(unclean_election(topic, after))


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


def has_movable_leadership(image: ClusterImage, index: PartitionIndex, node: NodeId) -> bool:
    """Whether the node leads a partition although another member of the ISR could."""
    ready = {n.node_id for n in image.nodes.values() if not n.fenced and not n.draining}
    ready.discard(node)
    return any(
        not ready.isdisjoint(image.topics[topic_id].partitions[number].isr)
        for topic_id, number in index.led.get(node, ())
    )


def unclean_election(topic: TopicState, partition: PartitionState) -> UncleanElection:
    """How it is told."""
    return UncleanElection(
        topic=topic.name,
        partition=partition.partition,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
    )
