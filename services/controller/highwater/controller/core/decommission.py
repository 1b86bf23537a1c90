"""Decommissions a node: moves its replicas to others, some at a time, until it holds none.

The mark on the node (`NodeState.decommissioning`) and the moves in the partitions' records are all
the state, so any later request continues an interrupted decommission.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from highwater.controller.core.election import Candidates
from highwater.controller.core.membership import ElectionRules, candidates_among
from highwater.controller.core.offline_replicas import OfflineByNode, nodes_without
from highwater.controller.core.outcome import (
    PENDING_REVISION,
    Changes,
    Decision,
    Refusal,
    delta_of,
    unchanged,
)
from highwater.controller.core.partition_index import (
    PartitionIndex,
    PartitionKey,
    in_order,
    index_of,
)
from highwater.controller.core.reassign import is_moving, start, target_replicas
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterDelta, ClusterImage, PartitionState, TopicState
from highwater.model.ids import NodeId, TopicId
from highwater.model.steps import Steps, finish

TOPICS_NAMED_MAX: Final = 10
"""Topics that an error names; it only counts the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a decommission is, in replicas of the node."""

    left: int
    """All replicas on the node, including those that are moving away."""
    moving: int
    waiting: int
    """Replicas that no live node can take."""


def decommission(
    image: ClusterImage,
    node: NodeId,
    rules: ElectionRules,
    *,
    moves_max: int,
    offline: OfflineByNode,
) -> Decision[Progress | Refusal]:
    """Marks the node, and starts moves until `moves_max` of its replicas are moving.

    Refused, with nothing changed, if some topic would have too few nodes.
    """
    return finish(
        decommissioning(
            image, node, rules, index=index_of(image), moves_max=moves_max, offline=offline
        )
    )


def decommissioning(
    image: ClusterImage,
    node: NodeId,
    rules: ElectionRules,
    *,
    index: PartitionIndex,
    moves_max: int,
    offline: OfflineByNode,
) -> Steps[Decision[Progress | Refusal]]:
    """`decommission` in steps. `index` belongs to the image."""
    state = image.nodes.get(node)
    if state is None:
        return unchanged(_unknown(node))
    here = yield from in_order(index.replicas.get(node, ()))
    refusal = yield from _refusing_too_few(image, node, here)
    if refusal is not None:
        return unchanged(refusal)
    moves = _Moves(image, node, rules, offline)
    moving, waiting = _moving_away(image, index, node), 0
    if moving < moves_max:
        yield from moves.counting()
    for topic_id, number in here:
        if moving >= moves_max:
            break
        topic = image.topics[topic_id]
        partition = topic.partitions[number]
        if not is_moving(partition):  # Else it moves away, or waits until its own move ends.
            if moves.begin(topic, partition):
                moving += 1
            else:
                waiting += 1
        yield
    nodes = () if state.decommissioning else (replace(state, decommissioning=True),)
    # A move that only takes a replica away may be completed already.
    left = len(here) - moves.completed
    moving -= moves.completed
    return Decision(
        delta=delta_of(moves.changed, nodes),
        result=Progress(left=left, moving=moving, waiting=waiting),
    )


def recommission(
    image: ClusterImage, node: NodeId, *, index: PartitionIndex
) -> Decision[Progress | Refusal]:
    """Lets the node have new replicas again; moves that have begun go on."""
    state = image.nodes.get(node)
    if state is None:
        return unchanged(_unknown(node))
    delta = None
    if state.decommissioning:
        after = replace(state, decommissioning=False)
        delta = ClusterDelta(revision=PENDING_REVISION, nodes=(after,))
    left, moving = len(index.replicas.get(node, ())), _moving_away(image, index, node)
    progress = Progress(left=left, moving=moving, waiting=0)
    return Decision(delta=delta, result=progress)


def remove_node(
    image: ClusterImage, node: NodeId, *, index: PartitionIndex, has_session: bool
) -> Decision[Refusal | None]:
    """Removes a node that has ended and holds nothing: a careful UnregisterBroker.

    `has_session`: the node was heard recently, perhaps in a new registration.
    """
    state = image.nodes.get(node)
    if state is None:
        return unchanged(_unknown(node))
    if has_session or not state.fenced:
        return unchanged(_invalid(f"node {node} is alive; stop it first"))
    left = len(index.replicas.get(node, ()))
    if left:
        return unchanged(_invalid(f"node {node} holds {left} replicas; decommission it first"))
    delta = ClusterDelta(revision=PENDING_REVISION, removed_nodes=frozenset({node}))
    return Decision(delta=delta, result=None)


class _Moves:
    """The moves of one step. Targets are chosen by replicas per node, including this step's moves.

    A replica goes to a rack that has none of the partition's other replicas, and there to the node
    with the fewest replicas; a preferred leader goes to the node that is preferred least.
    """

    def __init__(
        self, image: ClusterImage, node: NodeId, rules: ElectionRules, offline: OfflineByNode
    ) -> None:
        self._image = image
        self._node = node
        self._rules = rules
        self._failed = nodes_without(offline)
        self._candidates = candidates_among(image.nodes.values())
        self._racks = {
            n.node_id: n.rack
            for n in image.nodes.values()
            if not n.fenced and not n.draining and not n.decommissioning and n.node_id != node
        }
        self._replicas: Counter[NodeId] = Counter()
        self._preferred: Counter[NodeId] = Counter()
        self.changed: Changes = {}
        """The partitions whose moves have begun, with their new states."""
        self.completed = 0

    def counting(self) -> Steps[None]:
        """Counts the nodes' replicas before the first `begin`; in steps, over all partitions."""
        for topic in self._image.topics.values():
            for partition in topic.partitions:
                target = target_replicas(partition)
                for node in target:
                    self._replicas[node] += 1
                self._preferred[target[0]] += 1
                yield

    def begin(self, topic: TopicState, partition: PartitionState) -> bool:
        """Starts to move the node's replica to the best node; False if there is none."""
        place = partition.replicas.index(self._node)
        others = [n for n in partition.replicas if n != self._node]
        racks = {self._image.nodes[n].rack for n in others if n in self._image.nodes}
        free = [n for n in self._racks if n not in others]
        if not free:
            return False

        def cost(node: NodeId) -> tuple[bool, int, int, NodeId]:
            preferred = self._preferred[node] if place == 0 else 0
            return self._racks[node] in racks, self._replicas[node], preferred, node

        chosen = min(free, key=cost)
        target = tuple(chosen if n == self._node else n for n in partition.replicas)
        self._replicas[chosen] += 1
        self._preferred[target[0]] += place == 0
        after = start(
            partition,
            target,
            self._able(topic.topic_id, partition.partition),
            min_isr=self._rules.min_isr(topic),
            leader_first=True,
        )
        assert after is not None
        self.completed += self._node not in after.replicas
        self.changed.setdefault(topic.topic_id, {})[partition.partition] = after
        return True

    def _able(self, topic_id: TopicId, partition: int) -> Candidates:
        here = self._failed.get(topic_id, {}).get(partition, frozenset())
        return replace(self._candidates, alive=self._candidates.alive - here)


def _moving_away(image: ClusterImage, index: PartitionIndex, node: NodeId) -> int:
    """How many of the node's replicas leave it. Looks only at partitions that move."""
    moving = index.moving & index.replicas.get(node, frozenset())
    return sum(node in image.topics[t].partitions[n].removing_replicas for t, n in moving)


def _refusing_too_few(
    image: ClusterImage, node: NodeId, here: Sequence[PartitionKey]
) -> Steps[Refusal | None]:
    """Why the node is still needed; counts fenced nodes, since they may come back."""
    others = sum(not n.decommissioning and n.node_id != node for n in image.nodes.values())
    names: dict[str, int] = {}
    for topic_id, number in here:
        topic = image.topics[topic_id]
        factor = len(target_replicas(topic.partitions[number]))
        if factor > others:
            names[topic.name] = factor
        yield
    if not names:
        return None
    shown = [f"{name} ({factor} replicas)" for name, factor in sorted(names.items())]
    more = len(shown) - TOPICS_NAMED_MAX
    listed = ", ".join(shown[:TOPICS_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    return Refusal(
        code=ErrorCode.INVALID_REPLICATION_FACTOR,
        message=f"without node {node} there are {others} nodes left, too few for {listed}",
    )


def _unknown(node: NodeId) -> Refusal:
    return Refusal(
        code=ErrorCode.BROKER_ID_NOT_REGISTERED, message=f"there is no node with id {node}"
    )


def _invalid(message: str) -> Refusal:
    return Refusal(code=ErrorCode.INVALID_REQUEST, message=message)
