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

from highwater.model.transactions import TransactionMarker
from highwater.partition.core.producer_budget import (
    EVICTED_AT_ONCE,
    PER_PARTITION_DEFAULT,
    ProducerBudget,
)
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
from highwater.partition.core.sequences import (
    NO_SEQUENCE,
    SEQUENCE_MAX,
    is_before,
    last_sequence,
)
from highwater.partition.core.transactions import NO_PRODUCER, AbortedTransaction, Transactions
from highwater.partition.core.verifications import Verifications

ACCEPT: Final = -1
"""`ProducerStates.check`: the batch is new and in order."""
OUT_OF_ORDER_SEQUENCE: Final = -45
"""`ProducerStates.check`: minus Kafka's error code OUT_OF_ORDER_SEQUENCE_NUMBER."""
INVALID_PRODUCER_EPOCH: Final = -47
"""`ProducerStates.check`: minus Kafka's error code INVALID_PRODUCER_EPOCH."""
INVALID_TXN_STATE: Final = -48
"""`ProducerStates.append`: minus Kafka's error code INVALID_TXN_STATE."""
COORDINATOR_FENCED: Final = -52
"""`ProducerStates.check_marker`: minus Kafka's error code TRANSACTION_COORDINATOR_FENCED."""
STRICT_EPOCHS_FROM: Final = 2
"""The transaction.version from which on a marker has a larger epoch than its records (KIP-890)."""

BATCHES_KEPT: Final = 5

EXPIRED_AT_ONCE: Final = 1000
"""Producers that `expire` looks at before its caller may do something else; half a millisecond."""
IN_TRANSACTION_PASSED_MAX: Final = 100
"""Producers with an open transaction that one `evict` passes by before it leaves the rest to the next
one. Each is passed by once, until it writes again, and a new producer adds at most one: so what can go
is found, and no call takes long."""

_KEPT_FROM: Final = -ENTRY_BYTES * (BATCHES_KEPT - 1)
_STATE_AT: Final = 8 - ENTRY_BYTES
"""Where the newest epoch and sequence are in a producer's batches, from the end."""
_TIMESTAMP_AT: Final = 26 - ENTRY_BYTES
_unpack_state = Struct(">hi").unpack_from
_unpack_timestamp = Struct(">q").unpack_from
_pack_timestamp = Struct(">q").pack_into
_pack = ENTRY.pack


class ProducerStates:
    """All producers that wrote to one partition and were not forgotten.

    `append` every idempotent batch of a client before the log is written, so that the next batch of
    a group is judged by the one before it; `record_append` those of a leader or of the log. If the
    write fails the log directory goes offline and the states are rebuilt from disk.

    It lives as long as its log, and has the same owner; `budget` is the node's while it hosts it.
    `append` is hot path: one lookup, one entry packed.
    """

    __slots__ = ("_known", "_limit", "_open", "budget", "evicted", "transactions", "verifications")

    def __init__(self, limit: int = PER_PARTITION_DEFAULT) -> None:
        """`limit` is the number of producers beyond which the longest silent one is evicted."""
        assert limit > 0
        self._known = ProducerGenerations(limit)
        self._limit = limit
        self.transactions = Transactions()
        self._open = self.transactions.open
        self.verifications = Verifications()
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
                if self._open and producer_id in self._open:
                    return INVALID_TXN_STATE
                newest_generation[producer_id] = batches[_KEPT_FROM:] + _pack(
                    producer_id, epoch, last, base_offset + last_offset_delta, last_offset_delta,
                    timestamp, NO_COORDINATOR_EPOCH, NO_OFFSET,
                )  # fmt: skip
                return ACCEPT
        verdict = self.check(producer_id, epoch, base_sequence, last)
        if verdict == ACCEPT:
            if producer_id in self._open:
                return INVALID_TXN_STATE
            self.record_append(producer_id, epoch, last, base_offset, last_offset_delta, timestamp)
        return verdict

    def append_transactional(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        last_offset_delta: int,
        base_offset: int,
        timestamp: int,
        *,
        may_begin: bool,
    ) -> int:
        """As `append`, for a batch of a transaction, which it begins if the producer has none open.

        Only if `may_begin` it may do so, or go on with one in a newer epoch, or if the coordinator
        has granted it (`verifications`). Otherwise INVALID_TXN_STATE, as in Kafka's
        `UnifiedLog.append`. Offsets that a group coordinator writes have no sequence (-1): only
        their epoch is judged.
        """
        last = last_sequence(base_sequence, last_offset_delta)
        # Looked up once for all questions, as in `append`.
        batches = self._known.find(producer_id)
        is_open = late = False
        verdict = ACCEPT
        if batches is not None:
            known_epoch, known_sequence = _unpack_state(batches, _STATE_AT)
            is_open = epoch == known_epoch and producer_id in self._open
            if base_sequence == NO_SEQUENCE:
                verdict = INVALID_PRODUCER_EPOCH if epoch < known_epoch else ACCEPT
            elif epoch != known_epoch or base_sequence != (known_sequence + 1) & SEQUENCE_MAX:
                verdict = self.check(producer_id, epoch, base_sequence, last)
                late = epoch == known_epoch and _is_late(base_sequence, known_sequence)
        if verdict >= 0 or late:
            return verdict
        if not may_begin and not is_open:
            refused = self.verifications.refuse(
                producer_id, epoch, base_sequence, unknown=batches is None
            )
            if refused:
                return -refused
        if verdict == ACCEPT:
            self.verifications.begun(producer_id)
            self.record_append(
                producer_id, epoch, last, base_offset, last_offset_delta, timestamp,
                transactional=True,
            )  # fmt: skip
        return verdict

    def has_to_ask(
        self, producer_id: int, epoch: int, base_sequence: int, last_sequence: int
    ) -> bool:
        """Whether the coordinator has to be asked before this batch of a transaction may be appended;
        not for one that is in the log already, nor for one that comes so late that it never can be.
        """
        batches = self._known.find(producer_id)
        follows = batches is None
        if batches is not None:
            known_epoch, known_sequence = _unpack_state(batches, _STATE_AT)
            if epoch == known_epoch:
                if producer_id in self._open or _is_late(base_sequence, known_sequence):
                    return False
                follows = base_sequence == (known_sequence + 1) & SEQUENCE_MAX
        if self.verifications.granted(producer_id, epoch):
            return False
        return follows or self.check(producer_id, epoch, base_sequence, last_sequence) < 0

    def check_epoch(self, producer_id: int, epoch: int) -> int:
        """Judges a batch without sequences: `ACCEPT`, or INVALID_PRODUCER_EPOCH."""
        batches = self._known.find(producer_id)
        old = batches is not None and epoch < _epoch_of(batches)
        return INVALID_PRODUCER_EPOCH if old else ACCEPT

    def in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has a transaction open here, in this epoch."""
        if producer_id not in self._open:
            return False
        batches = self._known.find(producer_id)
        return batches is not None and _epoch_of(batches) == epoch

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

    def check_marker(self, marker: TransactionMarker) -> int:
        """Judges a coordinator's marker (Kafka's `ProducerAppendInfo.appendEndTxnMarker`): `ACCEPT`,
        or minus an error code.

        Of transaction.version 2 on, the epoch has to be larger than that of the records, so that a
        late marker cannot end the next transaction; only a marker that is in the log already may
        come again. A marker of a producer without an open transaction is accepted.
        """
        producer_id, epoch = marker.producer_id, marker.producer_epoch
        batches = self._known.find(producer_id)
        known_epoch = -1 if batches is None else _epoch_of(batches)
        if epoch < known_epoch:
            return INVALID_PRODUCER_EPOCH
        strict = marker.transaction_version >= STRICT_EPOCHS_FROM
        if strict and epoch == known_epoch and producer_id in self._open:
            return INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < self.transactions.coordinator_epoch(producer_id):
            return COORDINATOR_FENCED
        return ACCEPT

    def record_marker(
        self,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        offset: int,
        timestamp: int,
        *,
        committed: bool = False,
    ) -> AbortedTransaction | None:
        """Notes a marker that is in the log or goes into it, without a question; what it ends, unless the
        caller says that it is `committed` and so nothing for an index of aborted transactions.

        In a new epoch the producer's sequences begin at 0.
        """
        batches = self._admitted(producer_id)
        if batches and _epoch_of(batches) == epoch:
            entry = bytearray(newest(batches))
            _pack_timestamp(entry, ENTRY_BYTES + _TIMESTAMP_AT, timestamp)
            batches = batches[:-ENTRY_BYTES] + entry
        else:
            batches = _pack(
                producer_id, epoch, NO_SEQUENCE, NO_OFFSET, 0, timestamp,
                NO_COORDINATOR_EPOCH, NO_OFFSET,
            )  # fmt: skip
        self._known.newest[producer_id] = batches
        return self.transactions.end(producer_id, offset, coordinator_epoch, committed=committed)

    def record_append(
        self,
        producer_id: int,
        epoch: int,
        last_sequence: int,
        base_offset: int,
        last_offset_delta: int,
        timestamp: int,
        *,
        transactional: bool = False,
    ) -> None:
        """Notes a batch that is in the log or goes into it, without a question."""
        batches = self._admitted(producer_id)
        if batches and _epoch_of(batches) != epoch:
            batches = b""
        self._known.newest[producer_id] = batches[_KEPT_FROM:] + _pack(
            producer_id, epoch, last_sequence, base_offset + last_offset_delta, last_offset_delta,
            timestamp, NO_COORDINATOR_EPOCH, NO_OFFSET,
        )  # fmt: skip
        if transactional and producer_id not in self._open:
            self.transactions.begin(producer_id, base_offset)

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
        excess = len(self._known) - self._limit
        if excess > 0:
            self.evict(min(excess, EVICTED_AT_ONCE))
        if self.budget is not None:
            self.budget.keep()
        return b""

    @property
    def evictable(self) -> int:
        """Producers that need not stay, and one that is being added."""
        last = self.transactions.last_marker_producer
        kept = last != NO_PRODUCER and last not in self._open
        return len(self._known) - len(self._open) - kept

    def evict(self, most: int) -> int:
        """Forgets producers, the longest silent first, `most` of them at the most; how many.

        One with an open transaction stays, and is not looked at again before it writes, or its
        marker; `Transactions.last_marker_producer` is looked at after all others. Fewer than `most` if all others
        have to stay, or too many were passed by (`IN_TRANSACTION_PASSED_MAX`).
        """
        known, evicted = self._known, 0
        last = self.transactions.last_marker_producer
        for _ in range(most + IN_TRANSACTION_PASSED_MAX):
            oldest = known.pop_oldest() if evicted < most else None
            if oldest is None:
                break
            producer_id, batches = oldest
            if self._must_stay(producer_id):
                known.hold(producer_id, batches)
            elif producer_id == last:
                known.renew(producer_id, batches)
            else:
                self.transactions.forget(producer_id)
                evicted += 1
        self.evicted += evicted
        if self.budget is not None:
            self.budget.changed(-evicted, evicted=evicted)
        return evicted

    def expire(self, now_ms: int, expiration_ms: int) -> Iterator[int]:
        """Forgets producers without a batch for `expiration_ms`, but none with an open transaction,
        nor the `Transactions.last_marker_producer`; yields how many, after each `EXPIRED_AT_ONCE` that it has
        looked at. The states may change in between.
        """
        known, transactions = self._known, self.transactions
        ids = known.ids()
        for start in range(0, len(ids), EXPIRED_AT_ONCE):
            expired = 0
            for producer_id in ids[start : start + EXPIRED_AT_ONCE]:
                batches = known.find(producer_id)
                if batches is None or now_ms - timestamp_of(batches) < expiration_ms:
                    continue
                if not (
                    self._must_stay(producer_id) or producer_id == transactions.last_marker_producer
                ):
                    known.remove(producer_id)
                    transactions.forget(producer_id)
                    expired += 1
            if self.budget is not None:
                self.budget.changed(-expired)
            yield expired

    def _must_stay(self, producer_id: int) -> bool:
        """Whether its records wait for a marker, and the last stable offset with them (as Kafka's
        `ProducerStateManager.removeExpiredProducers`).
        """
        return producer_id in self._open

    def clear(self) -> None:
        """Forgets all producers, before the state is rebuilt."""
        if self.budget is not None:
            self.budget.changed(-len(self._known))
        self._known.clear()
        self.transactions.clear()
        self.verifications.clear()

    def packed(self) -> list[bytes]:
        """Every producer's batches, oldest first, as entries one behind another, for a snapshot that
        any thread makes. The list is the caller's.
        """
        known, transactions = self._known, self.transactions
        if not transactions.seen:
            return known.batches()
        told = transactions.producers()
        return [
            with_transaction(batches, transactions.packed(producer_id))
            if producer_id in told
            else batches
            for producer_id, batches in zip(known.ids(), known.batches(), strict=True)
        ]

    def last_offsets(self) -> dict[int, int]:
        """By producer, the last offset of its newest batch, which compaction must not take away.

        Producers of which only a marker's epoch is known are not among them.
        """
        entries = b"".join([newest(batches) for batches in self._known.batches()])
        return {f[0]: f[3] for f in ENTRY.iter_unpack(entries) if f[3] != NO_OFFSET}

    def marked_epochs(self) -> dict[int, int]:
        """By producer, its epoch, if nothing but a marker tells it."""
        entries = b"".join([newest(batches) for batches in self._known.batches()])
        return {f[0]: f[1] for f in ENTRY.iter_unpack(entries) if f[3] == NO_OFFSET}

    def entries(self) -> Iterator[ProducerEntry]:
        """Every producer's newest batch."""
        return unpacked(b"".join(newest(batches) for batches in self.packed()))

    def history(self) -> Iterator[ProducerEntry]:
        """As `entries`, with one entry for every batch that is remembered, oldest first."""
        return unpacked(b"".join(self.packed()))

    def load(self, entries: bytes, *, now_ms: int, expiration_ms: int) -> None:
        """Adds a snapshot's producers, which may have several entries each (`history`), except those
        that have expired; but one of them stays if it is the `Transactions.last_marker_producer`, until `expire`.
        """
        expired_one = b""
        for start in range(0, len(entries), ENTRY_BYTES):
            entry = entries[start : start + ENTRY_BYTES]
            transaction = entry[-TRANSACTION_BYTES:]
            expired = now_ms - timestamp_of(entry) >= expiration_ms
            if not expired or in_transaction(transaction):
                self._load(entry)
            elif transaction != NO_TRANSACTION:
                expired_one = entry
        if expired_one and self.transactions.last_marker_producer == NO_PRODUCER:
            self._load(expired_one)

    def _load(self, entry: bytes) -> None:
        producer_id = producer_id_of(entry)
        self.transactions.load(producer_id, entry[-TRANSACTION_BYTES:])
        batches = self._admitted(producer_id)
        if batches and _epoch_of(batches) != _epoch_of(entry):
            batches = b""
        self._known.newest[producer_id] = batches[_KEPT_FROM:] + with_transaction(
            entry, NO_TRANSACTION
        )


def _is_late(base_sequence: int, known_sequence: int) -> bool:
    """Whether a batch comes before the one that is next, so that it is in the log or never will be."""
    return is_before(base_sequence, (known_sequence + 1) & SEQUENCE_MAX)


def producer_id_of(batches: bytes) -> int:
    """Whose entries these are."""
    return int.from_bytes(batches[:8], "big", signed=True)


def _epoch_of(batches: bytes) -> int:
    """The producer's, of the newest batch or marker."""
    return int(_unpack_state(batches, _STATE_AT)[0])


def timestamp_of(batches: bytes) -> int:
    """Of the newest batch, milliseconds."""
    return int(_unpack_timestamp(batches, _TIMESTAMP_AT)[0])
