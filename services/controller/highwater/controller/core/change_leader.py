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


def without_failed_replica(
    partition: PartitionState, node: NodeId, candidates: Candidates, *, min_isr: int
) -> PartitionState | None:
    """The partition after the node's log of it failed although the node lives; None if the same.

    As if the node were dead for this partition alone. Its log may have lost what was not synced,
    so it is not eligible either, until it has caught up again.
    """
    if node not in partition.replicas:
        return None
    others = replace(
        candidates,
        alive=candidates.alive - {node},
        lost_tail=candidates.lost_tail | {node},
    )
    return elect(partition, others, min_isr=min_isr)
