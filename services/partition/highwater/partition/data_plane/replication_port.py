"""What a replica asks of its node: to fetch from a leader, and to change the ISR."""

from typing import Protocol, TypeVar

from highwater.partition.core.replica_effects import ProposeIsr

Replica_contra = TypeVar("Replica_contra", contravariant=True)
"""`PartitionReplica`, which is built on this port."""


class ReplicationPort(Protocol[Replica_contra]):
    """Called on the node's loop while an event is carried out; no call may call back at once."""

    def follow(self, replica: Replica_contra, leader: int, leader_epoch: int) -> None:
        """Fetch from `leader` in this epoch, not if it is -1; replaces the former leader."""
        ...

    def stop_following(self, replica: Replica_contra) -> None:
        """Stop fetching for this replica; harmless if it does not fetch."""
        ...

    def propose_isr(self, replica: Replica_contra, proposal: ProposeIsr) -> None:
        """Send it; `IsrAnswered` or `IsrUnanswered` with its attempt follows, never at once."""
        ...


class Alone:
    """The port of a node without other nodes: its partitions have one replica each."""

    def follow(self, replica: object, leader: int, leader_epoch: int) -> None:
        """Does nothing: there is no node to fetch from."""

    def stop_following(self, replica: object) -> None:
        """Does nothing: it never fetches."""

    def propose_isr(self, replica: object, proposal: ProposeIsr) -> None:
        """Does nothing: an ISR of one never changes."""
        raise AssertionError(f"{replica} is alone, yet proposes {proposal}")
