"""Idempotent producers of one partition: which batches are new, which were seen, which are lost.

Follows Kafka's `ProducerStateManager`, `ProducerStateEntry` and `ProducerAppendInfo`. Per producer
the last five batches are kept, as many as a client may have in flight.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

ACCEPT: Final = -1
"""`ProducerStates.check`: the batch is new and in order."""
OUT_OF_ORDER_SEQUENCE: Final = -45
"""`ProducerStates.check`: minus Kafka's error code OUT_OF_ORDER_SEQUENCE_NUMBER."""
INVALID_PRODUCER_EPOCH: Final = -47
"""`ProducerStates.check`: minus Kafka's error code INVALID_PRODUCER_EPOCH."""

BATCHES_KEPT: Final = 5
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
NO_OFFSET: Final = -1
NO_COORDINATOR_EPOCH: Final = -1
SEQUENCE_MAX: Final = 0x7FFF_FFFF


def last_sequence(base_sequence: int, last_offset_delta: int) -> int:
    """The sequence of a batch's last record: sequences go on at 0 after 2^31 - 1."""
    return (base_sequence + last_offset_delta) & SEQUENCE_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerEntry:
    """One producer as a snapshot file holds it: its newest batch only."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    """Last offset minus base offset of the newest batch."""
    timestamp: int
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    current_txn_first_offset: int = NO_OFFSET


class _Producer:
    """Mutable state of one producer. Batches are (base, last sequence, base, last offset)."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "epoch",
        "last_sequence",
        "timestamp",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.last_sequence = NO_SEQUENCE
        self.timestamp = NO_TIMESTAMP
        self.batches: list[tuple[int, int, int, int]] = []
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.current_txn_first_offset = NO_OFFSET


class ProducerStates:
    """All producers that wrote to one partition and have not expired.

    `check` every idempotent batch, then `record_append` those that are accepted, before the log
    is written, so that the next batch of a group is judged by the one before it. If the write
    fails the log directory goes offline and the states are rebuilt from disk.
    """

    __slots__ = ("_producers",)

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._producers

    def check(self, producer_id: int, epoch: int, base_sequence: int, last_sequence: int) -> int:
        """Judges a batch from a client; every number as in its header.

        Returns `ACCEPT`; or the base offset (>= 0) under which the same batch is already in the
        log; or minus an error code. A producer without state may begin anywhere, since its
        records may have been deleted (KIP-360).
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return ACCEPT
        if epoch != producer.epoch:
            if epoch < producer.epoch:
                return INVALID_PRODUCER_EPOCH
            return ACCEPT if base_sequence == 0 else OUT_OF_ORDER_SEQUENCE
        if base_sequence == (producer.last_sequence + 1) & SEQUENCE_MAX:
            return ACCEPT
        for batch in producer.batches:
            if batch[0] == base_sequence and batch[1] == last_sequence:
                return batch[2]
        return OUT_OF_ORDER_SEQUENCE

    def record_append(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        last_sequence: int,
        base_offset: int,
        last_offset: int,
        timestamp: int,
    ) -> None:
        """Notes a batch that goes into the log; also used when a log is replayed.

        `timestamp` is the batch's largest, by which the producer expires.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = _Producer(epoch)
        elif epoch != producer.epoch:
            producer.epoch = epoch
            producer.batches.clear()
        batches = producer.batches
        if len(batches) >= BATCHES_KEPT:
            del batches[0]
        batches.append((base_sequence, last_sequence, base_offset, last_offset))
        producer.last_sequence = last_sequence
        producer.timestamp = timestamp

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forgets producers without a batch for `expiration_ms`; returns how many.

        One with a transaction under way stays.
        """
        expired = [
            producer_id
            for producer_id, producer in self._producers.items()
            if producer.current_txn_first_offset == NO_OFFSET
            and now_ms - producer.timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)

    def clear(self) -> None:
        """Forgets all producers, before the state is rebuilt."""
        self._producers.clear()

    def entries(self) -> Iterator[ProducerEntry]:
        """What a snapshot holds."""
        for producer_id, producer in self._producers.items():
            base, last = producer.batches[-1][2:] if producer.batches else (NO_OFFSET, NO_OFFSET)
            yield ProducerEntry(
                producer_id=producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_offset=last,
                offset_delta=last - base,
                timestamp=producer.timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_first_offset=producer.current_txn_first_offset,
            )

    def history(self) -> Iterator[ProducerEntry]:
        """As `entries`, with one entry for every batch that is remembered, oldest first."""
        for newest in self.entries():
            for _, last, base_offset, last_offset in self._producers[newest.producer_id].batches[
                :-1
            ]:
                yield replace(
                    newest,
                    last_sequence=last,
                    last_offset=last_offset,
                    offset_delta=last_offset - base_offset,
                )
            yield newest

    def load(self, entries: Iterable[ProducerEntry], *, now_ms: int, expiration_ms: int) -> None:
        """Adds a snapshot's producers, except those that have expired meanwhile.

        A producer may have several entries, as `history` gives them.
        """
        for entry in entries:
            in_transaction = entry.current_txn_first_offset != NO_OFFSET
            if not in_transaction and now_ms - entry.timestamp >= expiration_ms:
                continue
            producer = self._producers.get(entry.producer_id)
            if producer is None or producer.epoch != entry.producer_epoch:
                producer = self._producers[entry.producer_id] = _Producer(entry.producer_epoch)
            producer.last_sequence = entry.last_sequence
            producer.timestamp = entry.timestamp
            producer.coordinator_epoch = entry.coordinator_epoch
            producer.current_txn_first_offset = entry.current_txn_first_offset
            if entry.last_offset >= 0 and entry.last_sequence >= 0:
                first = (entry.last_sequence - entry.offset_delta) & SEQUENCE_MAX
                base = entry.last_offset - entry.offset_delta
                producer.batches.append((first, entry.last_sequence, base, entry.last_offset))
