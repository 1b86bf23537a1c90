"""Records of a coordinator's topic between a shard's values and a batch's bytes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from highwater.kafka.errors import DecodeError

RecordT = TypeVar("RecordT")
"""A record as the shard sees it."""


class UnknownRecordError(DecodeError):
    """A key or value of a version that a newer Kafka wrote and that we skip."""


class EncodedRecord(NamedTuple):
    """What goes into a batch."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCodec(Generic[RecordT]):
    """The format of a topic's records, as two functions."""

    encode: Callable[[RecordT], EncodedRecord]
    decode: Callable[[bytes | None, bytes | None], RecordT]
    """(key, value) -> record. Raises UnknownRecordError for versions that we do not know, another
    DecodeError if the bytes do not match their version."""
