"""Replicas of which none moves to another log directory, for nodes of tests without moves."""

from __future__ import annotations

from highwater.partition.data_plane.replica import PartitionReplica


class StillReplicas:
    """`log_dirs.Moves` in which nothing moves."""

    def of(self, _replica: PartitionReplica) -> None:
        return None

    def can_move(self, _replica: PartitionReplica) -> bool:
        return True

    def move(self, replica: PartitionReplica, index: int) -> None:
        assert replica.log_dir == index, "nothing moves in this test"
