"""What a replica asks of the node around it: to be fed by a leader, and to have its ISR changed."""

from typing import Protocol, TypeVar

from highwater.partition.core.replica_effects import ProposeIsr

Replica_contra = TypeVar("Replica_contra", contravariant=True)
"""`PartitionReplica`, which is built on this port."""


class ReplicationPort(Protocol[Replica_contra]):
    """Called on the node's loop while an event is carried out; none may call back at once."""

    def follow(self, replica: Replica_contra, leader: int, leader_epoch: int) -> None:
        """Fetch from `leader` in this epoch, and from nobody if it is -1; replaces former ones."""
        ...

    def stop_following(self, replica: Replica_contra) -> None:
        """Fetch no more for this replica; harmless if nothing was."""
        ...

    def propose_isr(self, replica: Replica_contra, proposal: ProposeIsr) -> None:
        """Send it; `IsrAnswered` or `IsrUnanswered` with its attempt follows, never at once."""
        ...


class Alone:
    """The port of a node without others: its partitions have one replica each."""

    def follow(self, replica: object, leader: int, leader_epoch: int) -> None:
        """Nobody is there to fetch from."""

    def stop_following(self, replica: object) -> None:
        """Nothing is fetched."""

    def propose_isr(self, replica: object, proposal: ProposeIsr) -> None:
        """An ISR of one is never changed."""
        raise AssertionError(f"{replica} is alone, yet proposes {proposal}")
