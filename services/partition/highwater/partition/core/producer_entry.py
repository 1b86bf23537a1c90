"""One batch of a producer, in the bytes that a snapshot has for it.

The layout is Kafka's schema `ProducerSnapshot`, version 1 (`ProducerStateManager.java`), big endian:
int64 producer id, int16 epoch, int32 last sequence, int64 last offset, int32 offset delta, int64
timestamp, int32 coordinator epoch, int64 first offset of the current transaction.
"""

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from struct import Struct
from typing import Final

NO_OFFSET: Final = -1
NO_COORDINATOR_EPOCH: Final = -1

ENTRY: Final = Struct(">qhiqiqiq")
ENTRY_BYTES: Final = ENTRY.size
_TRANSACTION: Final = Struct(">iq")
"""The last two fields: what the transaction coordinator has said of the producer."""
TRANSACTION_BYTES: Final = _TRANSACTION.size
NO_TRANSACTION: Final = _TRANSACTION.pack(NO_COORDINATOR_EPOCH, NO_OFFSET)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerEntry:
    """One batch of a producer, and what is known of the producer since. Fields in wire order."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    """Last offset minus base offset of the batch."""
    timestamp: int
    """The batch's largest, milliseconds; a producer expires by that of its newest batch."""
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    current_txn_first_offset: int = NO_OFFSET

    def packed(self) -> bytes:
        """`ENTRY_BYTES` bytes."""
        return ENTRY.pack(*astuple(self))


def unpacked(data: bytes) -> Iterator[ProducerEntry]:
    """The entries of any number of them, one behind another."""
    for fields in ENTRY.iter_unpack(data):
        yield ProducerEntry(
            producer_id=fields[0],
            producer_epoch=fields[1],
            last_sequence=fields[2],
            last_offset=fields[3],
            offset_delta=fields[4],
            timestamp=fields[5],
            coordinator_epoch=fields[6],
            current_txn_first_offset=fields[7],
        )


def newest(batches: bytes) -> bytes:
    """The last of a producer's entries: what a snapshot that Kafka reads has of it."""
    return batches[-ENTRY_BYTES:]


def with_transaction(batches: bytes, transaction: bytes) -> bytes:
    """A producer's entries, the newest of them with these last two fields."""
    return batches[:-TRANSACTION_BYTES] + transaction


def in_transaction(transaction: bytes) -> bool:
    """Whether these last two fields tell of a transaction that is open."""
    return unpacked_transaction(transaction)[1] != NO_OFFSET


def packed_transaction(coordinator_epoch: int, first_offset: int) -> bytes:
    """The last two fields."""
    return _TRANSACTION.pack(coordinator_epoch, first_offset)


def unpacked_transaction(transaction: bytes) -> tuple[int, int]:
    """(coordinator epoch, first offset) of the last two fields; each -1 if there is none."""
    epoch, first_offset = _TRANSACTION.unpack(transaction)
    return epoch, first_offset
