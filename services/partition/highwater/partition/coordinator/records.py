"""Records of a coordinator's topic between a shard's values and a batch's bytes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from highwater.kafka.errors import DecodeError
from highwater.model.transactions import TransactionMarker
from highwater.partition.coordinator.core.values import Producer

RecordT = TypeVar("RecordT")
"""A record as the shard sees it."""


class UnknownRecordError(DecodeError):
    """A key or value of a version that a newer Kafka wrote and that we skip."""


class EncodedRecord(NamedTuple):
    """What goes into a batch."""

    key: bytes
    value: bytes | None


class PendingRecord(Protocol[RecordT]):
    """Makes a record one of a transaction."""

    def __call__(self, record: RecordT, producer: Producer) -> RecordT:
        """The record as one of this producer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalRecords(Generic[RecordT]):
    """How a coordinator sees records in transactions, and the markers that end them, in its log."""

    pending: "PendingRecord[RecordT]"
    """The same record, read from a batch of a transaction."""
    ended: Callable[[TransactionMarker], RecordT]
    """A marker as a record; `TransactionMarker.transaction_version` is 0 if it was read."""
    batch_of: Callable[[RecordT], Producer | TransactionMarker | None]
    """What the batch of a record must have: a producer, or it is the marker; None: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCodec(Generic[RecordT]):
    """The format of a topic's records, as two functions."""

    encode: Callable[[RecordT], tuple[bytes, bytes | None]]
    """The key and value; an `EncodedRecord`, or without names where every transaction makes three."""
    decode: Callable[[bytes | None, bytes | None], RecordT]
    """(key, value) -> record. Raises UnknownRecordError for versions that we do not know, another
    DecodeError if the bytes do not match their version."""
    transactions: TransactionalRecords[RecordT] | None = None
    """None: there are no transactions in this topic, and markers are passed by."""
