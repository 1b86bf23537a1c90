"""Leaders that give way to another one while they live: who has to be asked first, and what follows.

A leader that is asked takes no more appends, and says when its successor has all of its log. Then
nothing that only it has acknowledged (acks=1) is lost, and no append with acks=all is in doubt.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from highwater.controller.core.membership import ElectionRules, candidates_among
from highwater.controller.core.offline_replicas import OfflineByNode, nodes_without
from highwater.controller.core.outcome import Changes, Decision, delta_of
from highwater.controller.core.partition_index import PartitionKey
from highwater.controller.core.reassign import arriving_replicas, completed, is_moving
from highwater.model.cluster import ClusterDelta, ClusterImage, PartitionState
from highwater.model.ids import NO_NODE, NodeId
from highwater.model.steps import Steps, finish


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderMove:
    """One partition that is to be led by `successor`, which is in the ISR, instead of `leader`."""

    key: PartitionKey
    leader: NodeId
    leader_epoch: int
    successor: NodeId


def leader_moves(image: ClusterImage, delta: ClusterDelta | None) -> list[LeaderMove]:
    """The leaders that a delta would replace although they live; they can hand over first."""
    return finish(finding_leader_moves(image, delta))


def finding_leader_moves(
    image: ClusterImage, delta: ClusterDelta | None
) -> Steps[list[LeaderMove]]:
    """`leader_moves` in steps of one topic."""
    moves = []
    for topic_id, changed in ({} if delta is None else delta.partitions).items():
        present = image.topics[topic_id].partitions
        for after in changed:
            before = present[after.partition]
            node = image.nodes.get(before.leader)
            if after.leader in (NO_NODE, before.leader) or node is None or node.fenced:
                continue
            moves.append(
                LeaderMove(
                    key=(topic_id, after.partition),
                    leader=before.leader,
                    leader_epoch=before.leader_epoch,
                    successor=after.leader,
                )
            )
        yield
    return moves


def still_led(
    image: ClusterImage, moves: Iterable[LeaderMove], keys: Collection[PartitionKey]
) -> frozenset[PartitionKey]:
    """Those of the partitions whose leader is still in the epoch in which it was asked.

    The leader of a later epoch has not been asked, whatever became of the one before.
    """
    present = set()
    for move in moves:
        topic_id, number = move.key
        topic = image.topics.get(topic_id)
        if move.key not in keys or topic is None or number >= len(topic.partitions):
            continue
        if topic.partitions[number].leader_epoch == move.leader_epoch:
            present.add(move.key)
    return frozenset(present)


def finding_unasked(
    image: ClusterImage, delta: ClusterDelta | None, moves: Iterable[LeaderMove]
) -> Steps[frozenset[PartitionKey]]:
    """Partitions whose leaders live and would be replaced, but were not asked for just that: `moves` are.
    In steps of one topic.

    Nodes, disks and ISRs may have changed since they were asked, but a leader has waited for one
    replica: another one may lack the end of its log, although it is in sync.
    """
    asked = frozenset(moves)
    found = yield from finding_leader_moves(image, delta)
    return frozenset(move.key for move in found if move not in asked)


def without(delta: ClusterDelta | None, keys: Collection[PartitionKey]) -> ClusterDelta | None:
    """A delta of partitions, without some of them."""
    changed: Changes = {}
    for topic_id, states in ({} if delta is None else delta.partitions).items():
        for after in states:
            if (topic_id, after.partition) not in keys:
                changed.setdefault(topic_id, {})[after.partition] = after
    return delta_of(changed)


def as_asked(
    image: ClusterImage, decision: Decision[int], moves: Iterable[LeaderMove]
) -> Decision[int]:
    """The decision without partitions whose leaders were not asked (`finding_unasked`)."""
    others = finish(finding_unasked(image, decision.delta, moves))
    if not others:
        return decision
    delta = without(decision.delta, others)
    count = 0 if delta is None else sum(map(len, delta.partitions.values()))
    return Decision(delta=delta, result=count)


def waiting_moves(change: ClusterImage | ClusterDelta) -> Iterator[PartitionKey]:
    """Partitions whose move waits for nothing but, perhaps, the leader that it removes.

    That leader may have changed since, by a preferred election, for example.
    """
    for topic in change.topics.values() if isinstance(change, ClusterImage) else change.topics:
        for p in topic.partitions:
            if _waits(p):
                yield topic.topic_id, p.partition
    if isinstance(change, ClusterDelta):
        for topic_id, states in change.partitions.items():
            for p in states:
                if _waits(p):
                    yield topic_id, p.partition


def _waits(p: PartitionState) -> bool:
    return is_moving(p) and p.leader != NO_NODE and arriving_replicas(p) <= set(p.isr)


def finish_moves(
    image: ClusterImage,
    keys: Iterable[PartitionKey],
    rules: ElectionRules,
    offline: OfflineByNode,
) -> Decision[int]:
    """The moves of these partitions completed where that is possible; their number."""
    candidates = candidates_among(image.nodes.values())
    failed = nodes_without(offline)
    changed: Changes = {}
    for topic_id, number in keys:
        topic = image.topics.get(topic_id)
        if topic is None or number >= len(topic.partitions):
            continue  # Deleted meanwhile.
        present = topic.partitions[number]
        if not is_moving(present):
            continue
        here = failed.get(topic_id, {}).get(number, frozenset())
        able = candidates.of_partition(failed=here, full=rules.avoided(topic_id, number))
        done = completed(present, able, min_isr=rules.min_isr(topic))
        if done is not present:
            after = replace(done, partition_epoch=present.partition_epoch + 1)
            changed.setdefault(topic_id, {})[number] = after
    return Decision(delta=delta_of(changed), result=sum(map(len, changed.values())))
