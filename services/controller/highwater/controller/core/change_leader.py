"""Leader changes on request (ElectLeaders, balancing), for full disks, and for failed replicas.

Everything here keeps the rules of `election`: a new leader comes from the ISR, a change of leader
adds one to the leader epoch, any change adds one to the partition epoch.
"""

from dataclasses import replace

from highwater.controller.core.election import Candidates, elect
from highwater.model.cluster import PartitionState
from highwater.model.ids import NO_NODE, LeaderEpoch, NodeId


def elect_preferred(partition: PartitionState, candidates: Candidates) -> PartitionState | None:
    """The partition led by its first replica; None if that replica cannot lead or leads already.

    While its disk is nearly full it does not take a leadership from anybody, even if the leader's is, too.
    Source: Kafka's `PartitionChangeBuilder.Election.PREFERRED`.
    """
    preferred = partition.replicas[0]
    willing = candidates.alive - candidates.draining
    if preferred == partition.leader or preferred not in partition.isr or preferred not in willing:
        return None
    if preferred in candidates.full and partition.leader != NO_NODE:
        return None
    return _led_by(partition, preferred)


def elect_with_space(partition: PartitionState, candidates: Candidates) -> PartitionState | None:
    """The partition led by the first other replica in sync with space on its disk; None without one."""
    willing = candidates.alive - candidates.draining - candidates.full
    for node in partition.replicas:
        if node != partition.leader and node in partition.isr and node in willing:
            return _led_by(partition, node)
    return None


def _led_by(partition: PartitionState, node: NodeId) -> PartitionState:
    return replace(
        partition,
        leader=node,
        leader_epoch=LeaderEpoch(partition.leader_epoch + 1),
        last_known_leader=node,
        partition_epoch=partition.partition_epoch + 1,
    )


def without_failed_replicas(
    partition: PartitionState,
    nodes: frozenset[NodeId],
    candidates: Candidates,
    *,
    min_isr: int,
    unclean: bool = False,
) -> PartitionState | None:
    """The partition after its logs failed on live nodes; None if it stays as it is.

    Treats those nodes as dead for this partition alone. Their logs may have lost records that were
    not synced, so they are not eligible leaders until they have caught up again. But if no other
    replica is known to have everything, they stay in the ISR, as its last members do when they die:
    one of them has to come back, and leads again as soon as it does. The leader epoch grows if one
    of them was in the ISR or eligible, even if the leader stays: a replica that is made anew has
    the same node epoch, so a delayed fetch of the failed one must not put it into the ISR.
    """
    lost = candidates.lost_tail | nodes
    counted = (*partition.isr, *partition.eligible_leaders)
    others = replace(
        candidates,
        alive=candidates.alive - nodes,
        lost_tail=candidates.lost_tail if lost.issuperset(counted) else lost,
    )
    after = elect(partition, others, min_isr=min_isr, unclean=unclean)
    if after is None or after.leader_epoch > partition.leader_epoch:
        return after
    if nodes.isdisjoint(partition.isr) and nodes.isdisjoint(partition.eligible_leaders):
        return after
    return replace(after, leader_epoch=LeaderEpoch(after.leader_epoch + 1))
