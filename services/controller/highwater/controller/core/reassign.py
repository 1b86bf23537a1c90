"""Partitions that move to other nodes while they are in use (KIP-455): what becomes of one of them.

A partition that moves has the replicas that it shall have, in that order, then those that it shall
lose (`removing_replicas`); those of the first that it did not have before are `adding_replicas`.
When all of these are in the ISR the move is completed, in the same transaction that brings the last
of them there.

A leader that lives and would go with the move hands over first, so whoever completes moves leaves
these (`completed` with `leader_first`) to `active.hand_overs`. A move that is called back while it
was adding the present leader goes on in the other direction for that long: what it was adding is
then in `removing_replicas`, too.

Whenever a replica goes, the leader epoch grows by one, also if the leader stays: a fetch that the
replica had sent before it deleted its log must not count once it has been added again (Kafka's
`PartitionChangeBuilder.triggerLeaderEpochBumpForReplicaReassignmentIfNeeded`).

Sources: Kafka's `PartitionReassignmentReplicas`, `PartitionReassignmentRevert`. Unlike Kafka, a move
waits until the replicas that stay are as many in sync as min.insync.replicas asks: before that, one
that goes may be among the few that have everything. And a replica that a move was adding is still
one of `adding_replicas` after another move has taken its place.
"""

from dataclasses import replace

from highwater.controller.core.election import Candidates, choose_leader
from highwater.model.cluster import PartitionState
from highwater.model.ids import NO_NODE, LeaderEpoch, NodeId


def is_moving(partition: PartitionState) -> bool:
    """True while replicas are added or removed."""
    return bool(partition.adding_replicas or partition.removing_replicas)


def arriving_replicas(partition: PartitionState) -> frozenset[NodeId]:
    """The replicas that have to be in the ISR before the present move can be completed."""
    return frozenset(partition.adding_replicas).difference(partition.removing_replicas)


def target_replicas(partition: PartitionState) -> tuple[NodeId, ...]:
    """The replicas after the present move; all of them if there is none."""
    if not partition.removing_replicas:
        return partition.replicas
    return _without(partition.replicas, partition.removing_replicas)


def original_replicas(partition: PartitionState) -> tuple[NodeId, ...]:
    """The replicas without those that the present move adds."""
    if not partition.adding_replicas:
        return partition.replicas
    return _without(partition.replicas, partition.adding_replicas)


def start(
    partition: PartitionState,
    target: tuple[NodeId, ...],
    candidates: Candidates,
    *,
    min_isr: int,
    leader_first: bool = False,
) -> PartitionState | None:
    """The partition on its way to `target`, instead of any other; None if it is there, or on it.

    A move that only takes replicas away, or changes their order, is completed at once if the ISR
    allows it; with `leader_first` not before a leader that it removes has handed over. `target`
    names at least one node, and none twice.
    """
    original = original_replicas(partition)
    removing = _without(partition.replicas, target)
    replicas = (*target, *removing)
    adding = _without(target, original)
    if (replicas, adding, removing) == (
        partition.replicas,
        partition.adding_replicas,
        partition.removing_replicas,
    ):
        return None
    moving = replace(
        partition,
        replicas=replicas,
        adding_replicas=adding,
        removing_replicas=removing,
        partition_epoch=partition.partition_epoch + 1,
    )
    return completed(moving, candidates, min_isr=min_isr, leader_first=leader_first)


def cancel(
    partition: PartitionState,
    candidates: Candidates,
    *,
    min_isr: int,
    leader_first: bool = False,
) -> PartitionState | None:
    """The partition without the replicas that its move adds; None if no ISR would be left.

    With `leader_first` these remain if the leader is among them and lives, until it has handed over;
    the move back then ends as any other one does, and the same partition means that it is on its
    way. The order of the replicas stays that of the move. Only for a partition that moves.
    """
    assert is_moving(partition)
    kept = original_replicas(partition)
    isr = _without(partition.isr, partition.adding_replicas)
    if not isr:
        return None
    if leader_first and partition.leader in candidates.alive.intersection(
        partition.adding_replicas
    ):
        return _called_back(partition)
    # Eligible replicas stay eligible: nothing was committed without them, and nothing will be.
    eligible = tuple(node for node in partition.eligible_leaders if node in kept)
    slim = replace(
        partition,
        replicas=kept,
        isr=isr,
        eligible_leaders=() if len(isr) >= min_isr else eligible,
        adding_replicas=(),
        removing_replicas=(),
        partition_epoch=partition.partition_epoch + 1,
    )
    if not partition.adding_replicas:
        return slim
    return _in_new_leader_epoch(slim, _leader_among(slim, candidates))


def _called_back(partition: PartitionState) -> PartitionState:
    if partition.removing_replicas == partition.adding_replicas:
        return partition
    return replace(
        partition,
        replicas=(*original_replicas(partition), *partition.adding_replicas),
        removing_replicas=partition.adding_replicas,
        partition_epoch=partition.partition_epoch + 1,
    )


def completed(
    partition: PartitionState,
    candidates: Candidates,
    *,
    min_isr: int,
    leader_first: bool = False,
) -> PartitionState:
    """The partition with its move completed if that is possible, else as it is.

    With `leader_first` it goes on if it would remove a leader that lives, which hands over first.
    The partition epoch stays: this is the end of some change that has counted itself.
    """
    if not is_moving(partition):
        return partition
    target = target_replicas(partition)
    isr = _without(partition.isr, partition.removing_replicas)
    if not isr or not arriving_replicas(partition) <= set(isr):
        return partition
    if len(isr) < min(min_isr, len(target)):
        return partition
    # So many in sync leave nobody who would be eligible without being in sync.
    slim = replace(
        partition,
        replicas=target,
        isr=isr,
        eligible_leaders=(),
        adding_replicas=(),
        removing_replicas=(),
    )
    if not partition.removing_replicas:
        return slim
    if leader_first and partition.leader in candidates.alive.difference(target):
        return partition
    leader = _leader_among(slim, candidates)
    # Without a leader the others may still be needed; the next election asks again.
    return partition if leader == NO_NODE else _in_new_leader_epoch(slim, leader)


def settled(
    before: PartitionState,
    after: PartitionState | None,
    candidates: Candidates,
    *,
    min_isr: int,
) -> PartitionState | None:
    """What an election made of a partition, with its move completed if that is possible now.

    `after` is None if the election changed nothing, and so is the result if the move goes on. It
    does if it would remove a leader that lives: the election of others is no reason to do so.
    """
    present = before if after is None else after
    done = completed(present, candidates, min_isr=min_isr, leader_first=True)
    if done is present:
        return after
    return replace(done, partition_epoch=before.partition_epoch + 1)


def _leader_among(slim: PartitionState, candidates: Candidates) -> NodeId:
    """The present leader if it keeps a replica, else one from the ISR; NO_NODE if none can."""
    if slim.leader in slim.isr:
        return slim.leader
    return choose_leader(slim, slim.isr, slim.eligible_leaders, candidates)


def _in_new_leader_epoch(slim: PartitionState, leader: NodeId) -> PartitionState:
    """The partition after replicas have gone: in a new leader epoch, whoever leads."""
    last_known = slim.last_known_leader if leader == NO_NODE else leader
    return replace(
        slim,
        leader=leader,
        leader_epoch=LeaderEpoch(slim.leader_epoch + 1),
        isr=slim.isr if leader == NO_NODE or leader in slim.isr else (*slim.isr, leader),
        eligible_leaders=_without(slim.eligible_leaders, (leader,)),
        last_known_leader=last_known if last_known in slim.replicas else NO_NODE,
    )


def _without(nodes: tuple[NodeId, ...], others: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
    return tuple(node for node in nodes if node not in others)
