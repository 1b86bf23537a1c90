"""Group commit: all records of one loop turn become one batch, and answers wait for it.

Records are added already replayed; whatever the shard answers from then on may tell of them, so
an answer that does waits until everything added before it is committed. When an append fails, the
queue is finished: the state it fed no longer matches the log, and its owner loads a new one.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from highwater.kafka.records.batch import HEADER_SIZE
from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.partition.groups.core.durable import Record
from highwater.partition.groups.records import encode

_RECORD_OVERHEAD: Final = 32
"""The most that length, deltas and header count take around a key and a value."""

Append = Callable[[bytes, Callable[[int, int], None]], None]
"""(batch, on_committed(error_code, base_offset)); see `CoordinatorLog.append`."""


class _Batch:
    """A batch on its way, with everybody who waits for it."""

    __slots__ = ("at_offset", "committed", "count", "deliveries", "next_offset", "size")

    def __init__(self, count: int, size: int, deliveries: list[Callable[[int], None]]) -> None:
        self.count = count
        self.size = size
        self.deliveries = deliveries
        self.at_offset: list[Callable[[int], None]] = []
        self.committed = False
        self.next_offset = -1


class CommitQueue:
    """Records of one shard between being decided and being committed. Used on one loop."""

    def __init__(
        self,
        *,
        append: Append,
        next_offset: int,
        batch_bytes_max: int,
        call_soon: Callable[[Callable[[], None]], object],
        wall_ms: Callable[[], int],
        on_failure: Callable[[int], None],
        on_committed: Callable[[int], None],
    ) -> None:
        """`on_failure(error_code)` comes at most once, `on_committed(bytes)` per batch.

        `next_offset` is where the log ends now; `call_soon` runs a callback after this turn.
        """
        self._append_batch = append
        self._batch_bytes_max = batch_bytes_max
        self._call_soon = call_soon
        self._wall_ms = wall_ms
        self._on_failure = on_failure
        self._on_committed = on_committed
        self._next_offset = next_offset
        self._builder: RecordBatchBuilder | None = None
        self._waiting: list[Callable[[int], None]] = []
        """For the batch that is being built."""
        self._in_flight: deque[_Batch] = deque()
        self._in_flight_bytes = 0
        self._flush_scheduled = False
        self._finished = False

    @property
    def bytes(self) -> int:
        """Bytes that are not committed yet."""
        built = 0 if self._builder is None else self._builder.size_uncompressed
        return self._in_flight_bytes + built

    @property
    def idle(self) -> bool:
        """Whether everything added is committed."""
        return self._builder is None and not self._in_flight

    def add(self, records: list[Record]) -> None:
        """Queue the records of one operation; they share a batch unless they cannot fit one."""
        assert not self._finished
        encoded = [encode(record) for record in records]
        sizes = [len(key) + len(value or b"") + _RECORD_OVERHEAD for key, value in encoded]
        self._make_room(sum(sizes))
        timestamp_ms = self._wall_ms()
        for (key, value), size in zip(encoded, sizes, strict=True):
            self._make_room(size)
            if self._builder is None:
                self._builder = RecordBatchBuilder()
            self._builder.append(key=key, value=value, timestamp_ms=timestamp_ms)
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._call_soon(self.flush)

    def after_commit(self, deliver: Callable[[int], None]) -> None:
        """Call `deliver(0)` when all that was added is committed, `deliver(error)` if it fails."""
        if self._builder is not None:
            self._waiting.append(deliver)
        elif self._in_flight:
            self._in_flight[-1].deliveries.append(deliver)
        else:
            deliver(0)

    def at_offset(self, tell: Callable[[int], None]) -> None:
        """Append what is queued; `tell` the log's next offset once it is committed.

        Nobody is told when it fails.
        """
        self.flush()
        if self._in_flight:
            self._in_flight[-1].at_offset.append(tell)
        elif not self._finished:
            tell(self._next_offset)

    def flush(self) -> None:
        """Append what is queued, now."""
        self._flush_scheduled = False
        builder = self._builder
        if builder is None or self._finished:
            return
        data = builder.build()
        batch = _Batch(builder.record_count, len(data), self._waiting)
        self._builder = None
        self._waiting = []
        self._in_flight.append(batch)
        self._in_flight_bytes += batch.size
        self._append_batch(data, partial(self._appended, batch))

    def fail(self, error: int) -> None:
        """Finish: everybody who waits gets `error`, and what is still under way is ignored."""
        self._finished = True
        waiting = [deliver for batch in self._in_flight for deliver in batch.deliveries]
        waiting += self._waiting
        self._in_flight.clear()
        self._in_flight_bytes = 0
        self._waiting = []
        self._builder = None
        for deliver in waiting:
            deliver(error)

    def _make_room(self, size: int) -> None:
        """Begin another batch if `size` more bytes would make this one too large."""
        builder = self._builder
        room = self._batch_bytes_max - HEADER_SIZE
        if builder is not None and builder.size_uncompressed + size > max(room, size):
            self.flush()

    def _appended(self, batch: _Batch, error: int, base_offset: int) -> None:
        if self._finished:
            return
        if error:
            self._on_failure(error)
            return
        batch.committed = True
        batch.next_offset = base_offset + batch.count
        while self._in_flight and self._in_flight[0].committed:
            first = self._in_flight.popleft()
            self._in_flight_bytes -= first.size
            self._next_offset = first.next_offset
            for deliver in first.deliveries:
                deliver(0)
            for tell in first.at_offset:
                tell(first.next_offset)
            self._on_committed(first.size)
