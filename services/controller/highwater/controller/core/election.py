"""Who leads a partition: chosen from the ISR, then from KIP-966's eligible leader replicas.

A leader that stays may keep its epoch; a change of leader, also to none, adds one. The ISR keeps
its last members when they all die: they are the ones known to hold everything committed, and one
of them has to come back. A replica that leaves the ISR while that is below min.insync.replicas
becomes an eligible leader, because nothing can be committed without it. Source: KIP-966, Kafka's
`PartitionChangeBuilder`; unlike Kafka, the last ISR member does not move to the eligible ones.
"""

from dataclasses import dataclass, replace

from highwater.model.cluster import PartitionState
from highwater.model.ids import NO_NODE, LeaderEpoch, NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What an election knows of the nodes."""

    alive: frozenset[NodeId]
    """Nodes that are not fenced."""
    draining: frozenset[NodeId] = frozenset()
    """Alive nodes that shut down: they leave the ISR, and lead only if nobody else can."""
    lost_tail: frozenset[NodeId] = frozenset()
    """Nodes whose logs may miss acknowledged records (KIP-966): no longer in ISR or eligible."""
    full: frozenset[NodeId] = frozenset()
    """Nodes whose disks are nearly full: they begin to lead only if no other one in sync can."""

    def of_partition(self, *, failed: frozenset[NodeId], full: frozenset[NodeId]) -> "Candidates":
        """For one partition, which the failed nodes cannot serve."""
        if not failed and not full:
            return self
        return replace(self, alive=self.alive - failed, full=full)


def elect(
    partition: PartitionState,
    candidates: Candidates,
    *,
    min_isr: int,
    unclean: bool = False,
) -> PartitionState | None:
    """The partition after an election, or None if nothing changes.

    `unclean` allows a leader from outside the ISR, which loses records (the topic's choice).
    """
    isr, eligible = _trusted(partition, candidates)
    leader = choose_leader(partition, isr, eligible, candidates)
    last_known = partition.leader if partition.leader != NO_NODE else partition.last_known_leader
    recovered = False
    if leader == NO_NODE and not isr and not eligible and last_known in candidates.alive:
        # Nobody is known to hold everything; the last leader holds most (KIP-966).
        leader, recovered = last_known, True
    if leader == NO_NODE and unclean:
        alive = [node for node in partition.replicas if node in candidates.alive]
        if alive:
            # One that a reassignment adds may have nothing yet.
            leader, recovered = min(alive, key=partition.adding_replicas.__contains__), True
    if recovered:
        new_isr: tuple[NodeId, ...] = (leader,)
        new_eligible: tuple[NodeId, ...] = ()
    else:
        new_isr = _shrink(isr, leader, candidates)
        new_eligible = _eligible(isr, eligible, new_isr, min_isr)
    # A recovered leader may be the former one, whose lost tail had offsets that it now gives again.
    moved = leader != partition.leader or recovered
    if leader != NO_NODE:
        last_known = leader
    # Compared before anything is made: a dead node is a matter of 10 000 partitions.
    if (
        not moved
        and new_isr == partition.isr
        and new_eligible == partition.eligible_leaders
        and last_known == partition.last_known_leader
    ):
        return None
    # By hand: `dataclasses.replace` takes twice as long.
    return PartitionState(
        partition=partition.partition,
        leader=leader,
        leader_epoch=LeaderEpoch(partition.leader_epoch + 1) if moved else partition.leader_epoch,
        partition_epoch=partition.partition_epoch + 1,
        replicas=partition.replicas,
        isr=new_isr,
        eligible_leaders=new_eligible,
        last_known_leader=last_known,
        adding_replicas=partition.adding_replicas,
        removing_replicas=partition.removing_replicas,
    )


def is_unclean(before: PartitionState, after: PartitionState, candidates: Candidates) -> bool:
    """Whether an election chose a leader that may miss records which were committed."""
    if after.leader == NO_NODE or after.leader_epoch == before.leader_epoch:
        return False
    isr, eligible = _trusted(before, candidates)
    return after.leader not in isr and after.leader not in eligible


def after_isr_change(
    partition: PartitionState, isr: tuple[NodeId, ...], *, min_isr: int
) -> PartitionState:
    """The partition after its leader changed the ISR (AlterPartition)."""
    return replace(
        partition,
        isr=isr,
        eligible_leaders=_eligible(partition.isr, partition.eligible_leaders, isr, min_isr),
        partition_epoch=partition.partition_epoch + 1,
    )


def _trusted(
    partition: PartitionState, candidates: Candidates
) -> tuple[tuple[NodeId, ...], tuple[NodeId, ...]]:
    """ISR and eligible leaders without those that lost their tails."""
    lost = candidates.lost_tail
    if lost and len(partition.replicas) > 1:
        # A single replica has nobody to fetch from; what it has is what there is.
        return (
            tuple(node for node in partition.isr if node not in lost),
            tuple(node for node in partition.eligible_leaders if node not in lost),
        )
    return partition.isr, partition.eligible_leaders


def choose_leader(
    partition: PartitionState,
    isr: tuple[NodeId, ...],
    eligible: tuple[NodeId, ...],
    candidates: Candidates,
) -> NodeId:
    """The present leader if it may stay, else the first in replica order; NO_NODE if none.

    A leader whose disk is nearly full stays: it goes by a hand-over (`full_disks`).
    """
    alive, draining, full = candidates.alive, candidates.draining, candidates.full
    if partition.leader in isr and partition.leader in alive and partition.leader not in draining:
        return partition.leader
    for trusted in (isr, eligible):
        last_resort = NO_NODE
        for node in partition.replicas:
            if node in trusted and node in alive and node not in draining:
                if node not in full:
                    return node
                if last_resort == NO_NODE:
                    last_resort = node
        if last_resort != NO_NODE:
            return last_resort
    for node in (partition.leader, *partition.replicas):
        if node in alive and (node in isr or node in eligible):
            return node
    return NO_NODE


def _shrink(isr: tuple[NodeId, ...], leader: NodeId, candidates: Candidates) -> tuple[NodeId, ...]:
    if leader == NO_NODE:
        return isr
    staying = tuple(
        node
        for node in isr
        if node == leader or (node in candidates.alive and node not in candidates.draining)
    )
    return staying if leader in staying else (*staying, leader)


def _eligible(
    old_isr: tuple[NodeId, ...],
    old_eligible: tuple[NodeId, ...],
    isr: tuple[NodeId, ...],
    min_isr: int,
) -> tuple[NodeId, ...]:
    if len(isr) >= min_isr:
        return ()
    return tuple(node for node in dict.fromkeys((*old_eligible, *old_isr)) if node not in isr)
