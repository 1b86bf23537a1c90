"""Leaders that move on request: the preferred one (ElectLeaders, balancing), and failed replicas.

Everything here keeps the rules of `election`: a new leader comes from the ISR, a change of leader
adds one to the leader epoch, any change adds one to the partition epoch.
"""

from dataclasses import replace

from highwater.controller.core.election import Candidates, elect
from highwater.model.cluster import PartitionState
from highwater.model.ids import LeaderEpoch, NodeId


def elect_preferred(partition: PartitionState, candidates: Candidates) -> PartitionState | None:
    """The partition led by its first replica; None if that cannot lead or does so already.

    Source: Kafka's `PartitionChangeBuilder.Election.PREFERRED`.
    """
    preferred = partition.replicas[0]
    willing = candidates.alive - candidates.draining
    if preferred == partition.leader or preferred not in partition.isr or preferred not in willing:
        return None
    return replace(
        partition,
        leader=preferred,
        leader_epoch=LeaderEpoch(partition.leader_epoch + 1),
        last_known_leader=preferred,
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
    """The partition after logs of it failed on nodes that live; None if it stays as it is.

    As if those nodes were dead for this partition alone. Their logs may have lost what was not
    synced, so they are not eligible either, until they have caught up again; but if nobody else is
    known to have everything, they stay in the ISR, as its last members do when they die: one of
    them has to come back, and leads again as soon as it does. The leader epoch grows
    whenever one of them counted, though the leader stays: a replica that is made anew lives in the
    same node epoch, and a fetch of the failed one that was long on its way must not vouch for it.
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
