"""What a replica asks of the node around it: to be fed by a leader, and to have its ISR changed."""

from typing import TYPE_CHECKING, Protocol

from highwater.partition.core.replica_effects import ProposeIsr

if TYPE_CHECKING:
    from highwater.partition.data_plane.replica import PartitionReplica


class ReplicationPort(Protocol):
    """Called on the node's loop while an event is carried out; none may call back at once."""

    def follow(self, replica: "PartitionReplica", leader: int, leader_epoch: int) -> None:
        """Fetch from `leader` in this epoch, and from nobody if it is -1; replaces former ones."""
        ...

    def stop_following(self, replica: "PartitionReplica") -> None:
        """Fetch no more for this replica; harmless if nothing was."""
        ...

    def propose_isr(self, replica: "PartitionReplica", proposal: ProposeIsr) -> None:
        """Send it; `IsrAnswered` or `IsrUnanswered` with its attempt follows, never at once."""
        ...


class Alone:
    """The port of a node without others: its partitions have one replica each."""

    def follow(self, replica: "PartitionReplica", leader: int, leader_epoch: int) -> None:
        """Nobody is there to fetch from."""

    def stop_following(self, replica: "PartitionReplica") -> None:
        """Nothing is fetched."""

    def propose_isr(self, replica: "PartitionReplica", proposal: ProposeIsr) -> None:
        """An ISR of one is never changed."""
        raise AssertionError(f"partition {replica.partition} is alone, yet proposes {proposal}")
