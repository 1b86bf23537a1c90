"""Nouns of transactions (KIP-98, KIP-890) that partition nodes share: markers, and who takes them;
writers, and who verifies them.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from highwater.model.ids import InstanceId


class TransactionMarker(NamedTuple):
    """The end of one producer's transaction, as its coordinator has decided it. A tuple, because every
    transaction makes one.
    """

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    """The leader epoch of the coordinator's partition of its topic."""
    transaction_version: int
    """The transaction.version that the producer used; from 2 on (KIP-890) its epoch has to be larger
    than that of the transaction's records."""


class AwaitedMarker(NamedTuple):
    """A marker, and who waits for it."""

    marker: TransactionMarker
    done: Callable[[int], None]
    """Called once with an error code, on the loop, now or later: 0 when the marker is committed, else
    Kafka's code. Never raises."""


class MarkerTarget(Protocol):
    """Writes markers into the log of one partition that this node leads."""

    def write_markers(
        self, partition: int, leader_epoch: int, markers: Sequence[AwaitedMarker]
    ) -> None:
        """Appends the markers with acks=all, in their order, behind everything appended before; never
        raises. Each is answered for itself.

        `leader_epoch` is the one in which this node leads.
        """
        ...


class PartitionWriter(NamedTuple):
    """A producer that writes to a partition within a transaction. A tuple, because every transaction
    makes one for each of its partitions.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    instance: InstanceId
    """Of the transactional id and the topic."""
    topic: str
    """`__consumer_offsets` for the offsets of a group, in every instance."""
    partition: int
    adds_partition: bool
    """Whether the partition is to be added to the transaction, or has to be in it."""


class TransactionVerifier(Protocol):
    """Asks transaction coordinators on behalf of the partitions that this node leads."""

    def verify(self, writer: PartitionWriter, done: Callable[[int], None]) -> None:
        """Whether the partition is in the producer's open transaction, after it was perhaps added.

        Never raises. `done(error_code)` is called once, on the loop: 0 if it is, else Kafka's code of
        AddPartitionsToTxn, NETWORK_EXCEPTION if the coordinator did not answer.
        """
        ...
