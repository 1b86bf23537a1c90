"""The durable state of a shard: the records of its partition of a topic of transactions.

Only `DurableState.replay` changes it, both live and when the shard is loaded. So a shard that
crashes after any prefix of its committed records comes back to exactly that prefix's state, but for
`last_producer_epoch`, which Kafka's format has no place for.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from highwater.model.ids import InstanceId
from highwater.partition.transactions.core.state import EMPTY, TransactionState

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
EPOCH_MAX: Final = 32_767
"""Kept for the markers of the last transaction: no producer is given this epoch."""


class TransactionKey(NamedTuple):
    """A transactional id is unique within its instance."""

    instance: InstanceId
    transactional_id: str


class TopicPartition(NamedTuple):
    """A partition that a transaction has written to; names, as in Kafka's records. Topics are those of
    the transaction's instance, and `__consumer_offsets` is the one that has its groups.
    """

    topic: str
    partition: int


class TransactionImage(NamedTuple):
    """One transactional id (Kafka: `TransactionMetadata`).

    A tuple, because every transaction makes three: `dataclasses.replace` costs five times `_replace`.
    """

    producer_id: int
    producer_epoch: int
    """-1 before the first InitProducerId is answered; never written so."""
    timeout_ms: int
    update_ms: int
    """Wall clock of the last transition; the transactional id expires by it."""
    previous_producer_id: int = NO_PRODUCER_ID
    """That of the state before this one: another one only right after the id has changed."""
    next_producer_id: int = NO_PRODUCER_ID
    """While the transaction is prepared: what the producer gets when it is complete, because the
    epochs of `producer_id` are used up (KIP-890)."""
    last_producer_epoch: int = NO_EPOCH
    """The epoch before, which the same producer may still name when it tries again (KIP-360)."""
    state: TransactionState = EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = -1
    """Wall clock; -1 before the first transaction."""
    client_version: int = 0
    """The transaction.version that the client used."""

    @property
    def epoch_exhausted(self) -> bool:
        """Whether the producer id has no further epoch for a client."""
        return is_exhausted(self.producer_epoch)


def is_exhausted(epoch: int) -> bool:
    """Whether an epoch is the last that a client may have: the one after it is for fencing."""
    return epoch >= EPOCH_MAX - 1


class TransactionRecord(NamedTuple):
    """Sets or, with None, deletes a transactional id's image."""

    key: TransactionKey
    value: TransactionImage | None


class DurableState:
    """The images of one shard."""

    __slots__ = ("images",)

    def __init__(self) -> None:
        """Start empty."""
        self.images: dict[TransactionKey, TransactionImage] = {}

    def replay(self, record: TransactionRecord) -> None:
        """Apply one record; a record has a whole value, so replaying it twice changes nothing."""
        if record.value is None:
            self.images.pop(record.key, None)
        else:
            self.images[record.key] = record.value

    def capture(self) -> "DurableState":
        """Copy the state, so that later records do not change the copy; values are immutable."""
        copy = DurableState()
        copy.images = self.images.copy()
        return copy

    def records(self) -> Iterator[TransactionRecord]:
        """The shortest list of records that leads to this state."""
        for key, image in self.images.items():
            yield TransactionRecord(key, image)
