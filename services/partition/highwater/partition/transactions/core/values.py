"""Inputs and outputs of the core.

The handlers translate them from and to Kafka's messages. An API version appears here only as the
transaction.version that it stands for.
"""

from collections.abc import Callable
from typing import NamedTuple

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.transactions.core.image import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    TopicPartition,
    TransactionImage,
    TransactionKey,
)
from highwater.partition.transactions.core.state import TransactionState

NewProducerId = Callable[[], int | None]
"""Another producer id at each call; None while there is none, and clients shall ask again."""


class ProducerIdAndEpoch(NamedTuple):
    """Which producer, and which of its lives."""

    producer_id: int
    epoch: int


NO_PRODUCER = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_EPOCH)


class Decision(NamedTuple):
    """What a request leads to. Without `image` nothing is written.

    It and `EndRequest` are tuples, because every transaction makes some.
    """

    error: ErrorCode = ErrorCode.NONE
    producer: ProducerIdAndEpoch = NO_PRODUCER
    """For the answer."""
    image: TransactionImage | None = None


def refused(error: ErrorCode) -> Decision:
    """Nothing is written."""
    return Decision(error=error)


class EndRequest(NamedTuple):
    """An EndTxn request."""

    producer: ProducerIdAndEpoch
    commit: bool
    version: int
    """The client's transaction.version: 2 from EndTxn 5 on, else 0."""


class Filters(NamedTuple):
    """What ListTransactions asks for; empty sets and a negative duration are no filters."""

    producer_ids: frozenset[int]
    states: frozenset[TransactionState]
    has_state_filter: bool
    """True also if no state of the request is known: then nothing matches."""
    duration_ms: int


class Prepared(NamedTuple):
    """A transaction whose end is decided and not yet told to its partitions."""

    key: TransactionKey
    image: TransactionImage
    partitions: frozenset[TopicPartition]
    """Those without a marker."""
