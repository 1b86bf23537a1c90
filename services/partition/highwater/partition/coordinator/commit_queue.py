"""Group commit: all records of one loop turn become one batch, and answers wait for it.

Records are replayed into the state before they are added, so a later answer may already show them.
Every answer therefore waits until everything added before it is committed. It also waits until the
high watermark has reached the end of what was loaded.

An answer waits no longer than offsets.commit.timeout.ms, and then gets an error. The records stay
in the log and in the state and are committed later, as in Kafka's CoordinatorRuntime. When an
append fails, the queue is finished: its state no longer matches the log, and the owner loads a new
one.

Records that nobody waits for may come `at_leisure`. They stay for up to LINGER_S, so that the next ones
take them along into one append. Whatever is told after them still waits for them: so nothing that
follows from such a record is seen before the record is committed.

Records of a transaction have a batch of their own, with its producer, and so has the marker that
ends it. They are appended at once, so that the log's state of a producer is that of the shard.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import Final, Generic

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import HEADER_SIZE
from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.model.transactions import TransactionMarker
from highwater.partition.coordinator.core.values import Producer
from highwater.partition.coordinator.records import RecordT, TransactionalRecords

_RECORD_OVERHEAD: Final = 32
"""The most bytes that lengths, deltas and header count add to a key and a value."""

IN_FLIGHT_MAX: Final = 1_000
"""Batches in flight. While followers are slow, new records gather in the next batch. With more than
16 000 waiting batches the partition would give up the first, and the shard would load again."""

LINGER_S: Final = 0.2
"""A producer that runs one transaction after the other comes back sooner than that, also one of some
hundred that share a node."""

Append = Callable[[bytes, Callable[[int, int], None]], None]
"""(batch, on_committed(error_code, base_offset)); see `CoordinatorLog.append`."""

AppendMarker = Callable[[TransactionMarker, Callable[[int, int], None]], None]
"""The same for a marker; see `CoordinatorLog.append_marker`."""

_MARKER_BYTES: Final = 78


_Data = bytes
"""A batch; `CommitQueue.bytes` hides the name."""


_Waiter = tuple[int, int, Callable[[int], None]]
"""An answer that waits for the commit of a batch, whose number this is, and of all before it; its deadline
in milliseconds; `deliver`. Without names, because every transaction has two.
"""


class _Batch:
    """A batch in flight."""

    __slots__ = ("at_offset", "base_offset", "committed", "next_offset", "number", "size")

    def __init__(self, number: int, base_offset: int, next_offset: int, size: int) -> None:
        self.number = number
        self.base_offset = base_offset
        """Its first offset, if nobody else writes to the log."""
        self.next_offset = next_offset
        self.size = size
        self.at_offset: list[Callable[[int], None]] = []
        self.committed = False


class CommitQueue(Generic[RecordT]):
    """Records of one shard between being decided and being committed. Used on one loop."""

    def __init__(
        self,
        *,
        encode: Callable[[RecordT], tuple[bytes, bytes | None]],
        append: Append,
        append_marker: AppendMarker,
        next_offset: int,
        batch_bytes_max: int,
        timeout_ms: int,
        call_soon: Callable[[Callable[[], None]], object],
        call_later: Callable[[float, Callable[[], None]], object],
        on_failure: Callable[[int], None],
        on_committed: Callable[[int], None],
        caught_up: bool = True,
        transactions: TransactionalRecords[RecordT] | None = None,
    ) -> None:
        """`on_failure(error_code)` is called at most once, `on_committed(bytes)` per batch.

        `next_offset` is the log end offset; `call_soon` runs a callback after this turn, `call_later`
        after so many seconds;
        `timeout_ms` bounds the wait of each answer. Without `caught_up`, records below
        `next_offset` may not be committed yet; the owner calls `catch_up` when they are.
        """
        self._encode = encode
        self._transactions = transactions
        self._append_batch = append
        self._append_control = append_marker
        self._room = batch_bytes_max - HEADER_SIZE
        """For the records of a batch."""
        self._timeout_ms = timeout_ms
        self._call_soon = call_soon
        self._call_later = call_later
        self._on_failure = on_failure
        self._on_committed = on_committed
        self._next_offset = next_offset
        """Everything below is committed once nothing is in flight."""
        self._end_offset = next_offset
        """The next batch's first offset."""
        self._builder: RecordBatchBuilder | None = None
        self._waiting: deque[_Waiter] = deque()
        """In the order of their batches, and so of their deadlines."""
        self._follow_ups: deque[tuple[int, Callable[[], None]]] = deque()
        """(number of a batch, what to do once it is committed), in the order of the batches."""
        self._in_flight: deque[_Batch] = deque()
        self._in_flight_bytes = 0
        self._flushed = 0
        """Number of the last appended batch."""
        self._flush_scheduled = False
        self._at_leisure = False
        """Whether the builder has only records that nobody waits for."""
        self._lingers = False
        """Whether a flush will come for these."""
        self._failure: int | None = None
        """The error for every caller once the queue is finished."""
        self._loaded: _Batch | None = None
        if not caught_up:
            self._loaded = _Batch(0, next_offset, next_offset, 0)
            self._in_flight.append(self._loaded)

    @property
    def bytes(self) -> int:
        """Bytes that are not committed yet."""
        built = 0 if self._builder is None else self._builder.size_uncompressed
        return self._in_flight_bytes + built

    @property
    def waiting(self) -> int:
        """How many answers wait."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Whether everything added is committed."""
        return self._builder is None and not self._in_flight

    def has_more_than(self, nbytes: int, waiting: int) -> bool:
        """Whether more bytes than these are not committed yet, or more answers than these wait."""
        return self.bytes > nbytes or len(self._waiting) > waiting

    def add(self, records: list[RecordT], wall_ms: int, *, at_leisure: bool = False) -> None:
        """Queue the records of one operation, which was at this time, in one batch if they fit; see the
        module for those that come `at_leisure`.
        """
        assert self._failure is None
        if self._transactions is None:
            self._add(records, wall_ms, at_leisure=at_leisure)
            return
        for batch_of, some in groupby(records, key=self._transactions.batch_of):
            if batch_of is None:
                self._add(list(some), wall_ms)
            elif isinstance(batch_of, Producer):
                self._append_pending(batch_of, list(some), wall_ms)
            else:
                self._append_marker(batch_of)
            if self._finished:
                return  # The append has failed at once; the rest goes with the shard.

    @property
    def _finished(self) -> bool:
        return self._failure is not None

    def _add(self, records: list[RecordT], wall_ms: int, *, at_leisure: bool = False) -> None:
        encoded = list(map(self._encode, records))
        nbytes = 0
        for key, value in encoded:
            nbytes += len(key) + len(value or b"") + _RECORD_OVERHEAD
        if self._builder is not None:
            self._make_room(nbytes)
        fit_together = nbytes <= self._room
        for key, value in encoded:
            if not fit_together:
                self._make_room(len(key) + len(value or b"") + _RECORD_OVERHEAD)
            builder = self._builder
            if builder is None:
                builder = self._builder = RecordBatchBuilder()
                self._at_leisure = at_leisure
            builder.append(key=key, value=value, timestamp_ms=wall_ms)
        if not at_leisure:
            self._at_leisure = False
            self._flush_soon()
        elif self._at_leisure and not self._lingers:
            self._lingers = True
            self._call_later(LINGER_S, self._linger_over)

    def _append_pending(self, producer: Producer, records: list[RecordT], wall_ms: int) -> None:
        """Append the records of one operation in a transaction, which fit into one batch."""
        builder = RecordBatchBuilder(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transactional=True,
        )
        for key, value in map(self._encode, records):
            builder.append(key=key, value=value, timestamp_ms=wall_ms)
        self.flush()
        if not self._finished:
            self._append(builder.build(), builder.record_count)

    def _append_marker(self, marker: TransactionMarker) -> None:
        self.flush()
        if not self._finished:
            batch = self._next_batch(_MARKER_BYTES, 1)
            self._append_control(marker, partial(self._appended, batch))

    def after_commit(self, deliver: Callable[[int], None], now_ms: int) -> None:
        """Call `deliver(0)` when everything added so far is committed, else `deliver(error)`.

        The error comes when an append fails or the wait, which begins now on the monotonic clock, is too
        long; see `expire`.
        """
        if self._failure is not None:
            deliver(self._failure)
        elif self._builder is None and not self._in_flight:
            deliver(0)
        else:
            batch = self._flushed + (self._builder is not None)
            self._waiting.append((batch, now_ms + self._timeout_ms, deliver))
            if self._at_leisure:
                self._hurry()

    def when_committed(self, follow_up: Callable[[], None]) -> None:
        """Call `follow_up` once everything added so far is committed, however late that is.

        It is not called if the commit fails.
        """
        if self._failure is not None:
            return
        if self.idle:
            follow_up()
        else:
            self._follow_ups.append((self._flushed + (self._builder is not None), follow_up))
            self._hurry()

    def next_deadline_ms(self) -> int | None:
        """When `expire` is to be called next, None if nobody waits."""
        return self._waiting[0][1] if self._waiting else None

    def expire(self, now_ms: int, error: int) -> None:
        """Tell `error` to callers whose deadline has passed; their records stay."""
        waiting = self._waiting
        while waiting and waiting[0][1] <= now_ms:
            waiting.popleft()[2](error)

    def catch_up(self) -> None:
        """The high watermark has reached the end of the loaded records."""
        loaded, self._loaded = self._loaded, None
        if loaded is not None and self._failure is None:
            loaded.committed = True
            self._take_committed()

    def at_offset(self, tell: Callable[[int], None]) -> None:
        """Append what is queued; call `tell` with the next offset once it is committed.

        `tell` is not called if the commit fails.
        """
        self.flush()
        if self._in_flight:
            self._in_flight[-1].at_offset.append(tell)
        elif self._failure is None:
            tell(self._next_offset)

    def flush(self) -> None:
        """Append what is queued, now."""
        self._flush_scheduled = False
        builder = self._builder
        if builder is None or self._failure is not None:
            return
        self._builder = None
        self._append(builder.build(), builder.record_count)

    def _append(self, data: _Data, record_count: int) -> None:
        batch = self._next_batch(len(data), record_count)
        self._append_batch(data, partial(self._appended, batch))

    def _next_batch(self, size: int, record_count: int) -> _Batch:
        """A batch in flight from now on, behind all others."""
        base_offset = self._end_offset
        self._end_offset += record_count
        self._flushed += 1
        batch = _Batch(self._flushed, base_offset, self._end_offset, size)
        self._in_flight.append(batch)
        self._in_flight_bytes += batch.size
        return batch

    def fail(self, error: int) -> None:
        """Finish: all waiting callers get `error`, and later results are ignored."""
        self._failure = error
        waiting, self._waiting = self._waiting, deque()
        self._follow_ups.clear()
        self._in_flight.clear()
        self._in_flight_bytes = 0
        self._builder = None
        for _, _, deliver in waiting:
            deliver(error)

    def _hurry(self) -> None:
        """Somebody waits for what is queued."""
        if self._builder is not None and self._at_leisure:
            self._at_leisure = False
            self._flush_soon()

    def _linger_over(self) -> None:
        self._lingers = False
        self._hurry()

    def _flush_soon(self) -> None:
        """Append what is queued after this turn, or once fewer batches are in flight."""
        if not self._flush_scheduled and len(self._in_flight) < IN_FLIGHT_MAX:
            self._flush_scheduled = True
            self._call_soon(self.flush)

    def _make_room(self, size: int) -> None:
        """Begin another batch if `size` more bytes would make this one too large."""
        builder = self._builder
        if builder is not None and builder.size_uncompressed + size > max(self._room, size):
            self.flush()

    def _appended(self, batch: _Batch, error: int, base_offset: int) -> None:
        if self._failure is not None:
            return
        if not error and base_offset != batch.base_offset:
            # The log has another batch: one that was given up while a slow disk still had it.
            # The state was built without that batch.
            error = ErrorCode.REQUEST_TIMED_OUT
        if error:
            self._on_failure(error)
            return
        batch.committed = True
        self._take_committed()

    def _take_committed(self) -> None:
        while self._in_flight and self._in_flight[0].committed:
            first = self._in_flight.popleft()
            self._in_flight_bytes -= first.size
            self._next_offset = first.next_offset
            while self._waiting and self._waiting[0][0] <= first.number:
                self._waiting.popleft()[2](0)
            while self._follow_ups and self._follow_ups[0][0] <= first.number:
                self._follow_ups.popleft()[1]()
            for tell in first.at_offset:
                tell(first.next_offset)
            self._on_committed(first.size)
        if self._builder is not None and not self._at_leisure:
            self._flush_soon()
