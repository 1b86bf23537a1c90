"""Idempotent producers of one partition: which batches are new, which were seen, which are lost.

Follows Kafka's `ProducerStateManager`, `ProducerStateEntry` and `ProducerAppendInfo`. Per producer
the last five batches are kept, as many as a client may have in flight, as the entries that a snapshot
has for them (`producer_entry`): immutable, so that a snapshot is a list of references, which another
thread joins. That takes some 140 bytes for a producer with one batch.

A producer is forgotten when it has been silent for producer.id.expiration.ms, or is the longest
silent of too many (`producer_budget`). Its next batch is then taken as a new producer's, with any
sequence, as in Kafka since KIP-360 (never UNKNOWN_PRODUCER_ID): what is lost is that a batch sent
twice is found out, and that an older epoch is refused.

That is safe on every replica by itself. Only leaders `check`; all replicas `record_append` every
batch, in the log's order, so that what a replica knows of a producer is always the end of what that
producer wrote: either nothing, or its newest batches. A replica that has forgotten fewer refuses what
Kafka refuses; one that has forgotten more accepts. None can refuse a batch that is in order, which a
state with a gap would. Followers therefore evict by themselves, in the same order as the leader where
limits are the same; a new leader may know more or less than the former one, as if a producer had
expired at another time. A snapshot from before an eviction or after it makes the same difference,
since the batches behind it are replayed onto it.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from highwater.partition.core.producer_budget import PER_PARTITION_DEFAULT, ProducerBudget
from highwater.partition.core.producer_entry import (
    ENTRY,
    ENTRY_BYTES,
    NO_COORDINATOR_EPOCH,
    NO_OFFSET,
    NO_TRANSACTION,
    TRANSACTION_BYTES,
    ProducerEntry,
    in_transaction,
    newest,
    unpacked,
    with_transaction,
)
from highwater.partition.core.producer_generations import ProducerGenerations

ACCEPT: Final = -1
"""`ProducerStates.check`: the batch is new and in order."""
OUT_OF_ORDER_SEQUENCE: Final = -45
"""`ProducerStates.check`: minus Kafka's error code OUT_OF_ORDER_SEQUENCE_NUMBER."""
INVALID_PRODUCER_EPOCH: Final = -47
"""`ProducerStates.check`: minus Kafka's error code INVALID_PRODUCER_EPOCH."""

BATCHES_KEPT: Final = 5
SEQUENCE_MAX: Final = 0x7FFF_FFFF

EXPIRED_AT_ONCE: Final = 1000
"""Producers that `expire` looks at before its caller may do something else; half a millisecond."""
IN_TRANSACTION_PASSED_MAX: Final = 100
"""Producers with an open transaction that one `evict` passes by before it gives up: each of them is
the coordinator's to end (transaction.max.timeout.ms), so they do not stay many."""

_KEPT_FROM: Final = -ENTRY_BYTES * (BATCHES_KEPT - 1)
_STATE_AT: Final = 8 - ENTRY_BYTES
"""Where the newest epoch and sequence are in a producer's batches, from the end."""
_TIMESTAMP_AT: Final = 26 - ENTRY_BYTES
_unpack_state = Struct(">hi").unpack_from
_unpack_timestamp = Struct(">q").unpack_from
_pack = ENTRY.pack


def last_sequence(base_sequence: int, last_offset_delta: int) -> int:
    """The sequence of a batch's last record: sequences go on at 0 after 2^31 - 1."""
    return (base_sequence + last_offset_delta) & SEQUENCE_MAX


class ProducerStates:
    """All producers that wrote to one partition and were not forgotten.

    `append` every idempotent batch of a client before the log is written, so that the next batch of
    a group is judged by the one before it; `record_append` those of a leader or of the log. If the
    write fails the log directory goes offline and the states are rebuilt from disk.

    It lives as long as its log, and has the same owner; `budget` is the node's while it hosts it.
    `append` is hot path: one lookup, one entry packed.
    """

    __slots__ = ("_known", "_limit", "_transactions", "budget", "evicted")

    def __init__(self, limit: int = PER_PARTITION_DEFAULT) -> None:
        """`limit` is the number of producers beyond which the longest silent one is evicted."""
        assert limit > 0
        self._known = ProducerGenerations(limit)
        self._limit = limit
        self._transactions: dict[int, bytes] = {}
        """By producer, what a coordinator has said of it: the last two fields of its entry."""
        self.budget: ProducerBudget | None = None
        self.evicted = 0
        """Producers that were forgotten because there were too many."""

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, producer_id: int) -> bool:
        return self._known.find(producer_id) is not None

    def append(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        last_offset_delta: int,
        base_offset: int,
        timestamp: int,
    ) -> int:
        """Judges a client's batch as `check` does, and notes it if it is accepted.

        All but `base_offset`, which the leader gives it, is as in the batch's header; `timestamp` is
        the largest, by which the producer expires.
        """
        newest_generation = self._known.newest
        batches = newest_generation.get(producer_id)
        last = (base_sequence + last_offset_delta) & SEQUENCE_MAX
        if batches is not None:
            known_epoch, known_sequence = _unpack_state(batches, _STATE_AT)
            if epoch == known_epoch and base_sequence == (known_sequence + 1) & SEQUENCE_MAX:
                newest_generation[producer_id] = batches[_KEPT_FROM:] + _pack(
                    producer_id, epoch, last, base_offset + last_offset_delta, last_offset_delta,
                    timestamp, NO_COORDINATOR_EPOCH, NO_OFFSET,
                )  # fmt: skip
                return ACCEPT
        verdict = self.check(producer_id, epoch, base_sequence, last)
        if verdict == ACCEPT:
            self.record_append(producer_id, epoch, last, base_offset, last_offset_delta, timestamp)
        return verdict

    def check(self, producer_id: int, epoch: int, base_sequence: int, last_sequence: int) -> int:
        """Judges a batch from a client; every number as in its header.

        Returns `ACCEPT`; or the base offset (>= 0) under which the same batch is already in the
        log; or minus an error code. A producer without state may begin anywhere, since its
        records may have been deleted (KIP-360).
        """
        batches = self._known.find(producer_id)
        if batches is None:
            return ACCEPT
        known_epoch, known_sequence = _unpack_state(batches, _STATE_AT)
        if epoch != known_epoch:
            if epoch < known_epoch:
                return INVALID_PRODUCER_EPOCH
            return ACCEPT if base_sequence == 0 else OUT_OF_ORDER_SEQUENCE
        if base_sequence == (known_sequence + 1) & SEQUENCE_MAX:
            return ACCEPT
        for _, _, last, last_offset, delta, _, _, _ in ENTRY.iter_unpack(batches):
            if last == last_sequence and (last - delta) & SEQUENCE_MAX == base_sequence:
                return int(last_offset - delta)
        return OUT_OF_ORDER_SEQUENCE

    def known_at(self, producer_id: int, base_offset: int) -> int:
        """The largest timestamp, in milliseconds, of a batch that `check` has found at that offset."""
        for _, _, _, last_offset, delta, timestamp, _, _ in ENTRY.iter_unpack(
            self._known.find(producer_id) or b""
        ):
            if last_offset - delta == base_offset:
                return int(timestamp)
        return -1

    def record_append(
        self,
        producer_id: int,
        epoch: int,
        last_sequence: int,
        base_offset: int,
        last_offset_delta: int,
        timestamp: int,
    ) -> None:
        """Notes a batch that is in the log or goes into it, without a question."""
        batches = self._admitted(producer_id)
        if batches and _unpack_state(batches, _STATE_AT)[0] != epoch:
            batches = b""
        self._known.newest[producer_id] = batches[_KEPT_FROM:] + _pack(
            producer_id, epoch, last_sequence, base_offset + last_offset_delta, last_offset_delta,
            timestamp, NO_COORDINATOR_EPOCH, NO_OFFSET,
        )  # fmt: skip

    def _admitted(self, producer_id: int) -> bytes:
        """What is known of a producer that is about to be put among the newest; b"" if nothing is,
        and then another one may have to go.
        """
        batches = self._known.newest.get(producer_id)
        if batches is None:
            batches = self._known.take(producer_id)
        if batches is not None:
            return batches
        if self.budget is not None:
            self.budget.changed(1)
        if len(self._known) > self._limit:
            self.evict(1)
        if self.budget is not None:
            self.budget.keep()
        return b""

    def evict(self, most: int) -> int:
        """Forgets producers, the longest silent first, `most` of them at the most; how many.

        One with an open transaction stays, and counts as one that has just written.
        """
        known, evicted = self._known, 0
        for _ in range(most + IN_TRANSACTION_PASSED_MAX):
            oldest = known.pop_oldest() if evicted < most else None
            if oldest is None:
                break
            producer_id, batches = oldest
            if self._must_stay(producer_id):
                known.take(producer_id)
                known.newest[producer_id] = batches
            else:
                self._transactions.pop(producer_id, None)
                evicted += 1
        self.evicted += evicted
        if self.budget is not None:
            self.budget.changed(-evicted, evicted=evicted)
        return evicted

    def expire(self, now_ms: int, expiration_ms: int) -> Iterator[int]:
        """Forgets producers without a batch for `expiration_ms`, but none with an open transaction;
        yields how many, after each `EXPIRED_AT_ONCE` that it has looked at. The states may change
        in between.
        """
        known = self._known
        ids = known.ids()
        for start in range(0, len(ids), EXPIRED_AT_ONCE):
            expired = 0
            for producer_id in ids[start : start + EXPIRED_AT_ONCE]:
                batches = known.find(producer_id)
                if batches is None or now_ms - timestamp_of(batches) < expiration_ms:
                    continue
                if not self._must_stay(producer_id):
                    known.remove(producer_id)
                    self._transactions.pop(producer_id, None)
                    expired += 1
            if self.budget is not None:
                self.budget.changed(-expired)
            yield expired

    def _must_stay(self, producer_id: int) -> bool:
        """Whether a producer may not be forgotten, neither evicted nor expired: its records wait for
        a marker, and the last stable offset with them (as Kafka's
        `ProducerStateManager.removeExpiredProducers`).
        """
        return in_transaction(self._transactions.get(producer_id, NO_TRANSACTION))

    def clear(self) -> None:
        """Forgets all producers, before the state is rebuilt."""
        if self.budget is not None:
            self.budget.changed(-len(self._known))
        self._known.clear()
        self._transactions.clear()

    def packed(self) -> list[bytes]:
        """Every producer's batches, oldest first, as entries one behind another: what a snapshot is
        made of, on any thread. The list is the caller's.
        """
        if not self._transactions:
            return self._known.batches()
        none = NO_TRANSACTION
        told = self._transactions
        return [
            with_transaction(batches, told.get(producer_id_of(batches), none))
            for batches in self._known.batches()
        ]

    def last_offsets(self) -> dict[int, int]:
        """By producer, the last offset of its newest batch, which compaction must not take away."""
        entries = b"".join([newest(batches) for batches in self.packed()])
        return {fields[0]: fields[3] for fields in ENTRY.iter_unpack(entries)}

    def entries(self) -> Iterator[ProducerEntry]:
        """Every producer's newest batch."""
        return unpacked(b"".join(newest(batches) for batches in self.packed()))

    def history(self) -> Iterator[ProducerEntry]:
        """As `entries`, with one entry for every batch that is remembered, oldest first."""
        return unpacked(b"".join(self.packed()))

    def load(self, entries: bytes, *, now_ms: int, expiration_ms: int) -> None:
        """Adds a snapshot's producers, except those that have expired meanwhile.

        A producer may have several entries, as `history` gives them.
        """
        for start in range(0, len(entries), ENTRY_BYTES):
            entry = entries[start : start + ENTRY_BYTES]
            transaction = entry[-TRANSACTION_BYTES:]
            expired = now_ms - timestamp_of(entry) >= expiration_ms
            if expired and not in_transaction(transaction):
                continue
            producer_id = producer_id_of(entry)
            if transaction != NO_TRANSACTION:
                self._transactions[producer_id] = transaction
            batches = self._admitted(producer_id)
            if (
                batches
                and _unpack_state(batches, _STATE_AT)[0] != _unpack_state(entry, _STATE_AT)[0]
            ):
                batches = b""
            self._known.newest[producer_id] = batches[_KEPT_FROM:] + with_transaction(
                entry, NO_TRANSACTION
            )


def producer_id_of(batches: bytes) -> int:
    """Whose entries these are."""
    return int.from_bytes(batches[:8], "big", signed=True)


def timestamp_of(batches: bytes) -> int:
    """Of the newest batch, milliseconds."""
    return int(_unpack_timestamp(batches, _TIMESTAMP_AT)[0])
