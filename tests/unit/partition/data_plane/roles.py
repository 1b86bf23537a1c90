"""Gives replicas their roles, as images would."""

from __future__ import annotations

from highwater.partition.core.replica_events import PartitionChanged
from highwater.partition.data_plane.replica import PartitionReplica

NODE = 1


def image_says(
    replica: PartitionReplica,
    *,
    leader: int,
    epoch: int,
    replicas: tuple[int, ...] = (NODE,),
    isr: tuple[int, ...] | None = None,
    min_isr: int = 1,
    now_ms: int = 0,
) -> None:
    """Pass the partition's next record in the image to the replica."""
    replica.handle(
        PartitionChanged(
            now_ms=now_ms,
            leader=leader,
            leader_epoch=epoch,
            partition_epoch=replica.core.isr.partition_epoch + 1,
            replicas=replicas,
            isr=replicas if isr is None else isr,
            min_isr=min_isr,
        )
    )


def lead(replica: PartitionReplica, epoch: int) -> None:
    """Make the replica leader, and the partition's only replica."""
    image_says(replica, leader=NODE, epoch=epoch)


def follow(replica: PartitionReplica, leader: int, epoch: int) -> None:
    """Make another node the leader."""
    image_says(replica, leader=leader, epoch=epoch, replicas=(leader, NODE))


def follower_fetched(replica: PartitionReplica, node: int, offset: int, *, now_ms: int = 0) -> None:
    """Count a fetch of a follower that has everything before `offset`."""
    core = replica.core
    assert core.refuse_follower(node, 1, replica.leader_epoch) == 0
    replica.moved(core.follower_fetched(core.followers[node], offset, now_ms))
