"""One partition of a copy, written by one task: records and the sync that speaks of them in one transaction.

    init_transactions              whoever wrote this partition before is fenced, what it left open is aborted
    read the end of the offsets    so that what is copied is known, whatever Spark repeats, whoever was killed
    for each transaction           records; when they are acknowledged, the sync with their offsets; commit

The offsets that records got are in the acknowledgements, in the order of the records.

A task cannot tell the end of its rows from a reader that failed: Spark closes the connection then, and PySpark takes
that for the end. So no sync of a task says more than what the task has seen. Offsets without records at the end of a
range are noted afterwards, by a task that gets no rows: by then the driver knows that the first one got all of them.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from highwater.model.errors import HighwaterError
from highwater.spark.mirror.clients import Failure, TargetClients, Trouble, failure
from highwater.spark.mirror.naming import offsets_topic, transactional_id
from highwater.spark.mirror.offset_log import OPEN_WAIT_S, read_part
from highwater.spark.mirror.offset_records import Sync, key_of, value_of
from highwater.spark.mirror.plan import Work, is_of

RECORDS_MAX: Final = 10_000
BYTES_MAX: Final = 16 * 1024 * 1024
SECONDS_MAX: Final = 5.0
"""Of one transaction: readers of the copy see nothing of it before its end."""

TIMEOUT_S: Final = 60.0
FULL_QUEUE_WAIT_S: Final = 1.0
FULL_QUEUE_TRIES_MAX: Final = 60

COLUMNS: Final = ("topic", "partition", "offset", "ms", "key", "value", "headers")
"""Of rows; `ms` since 1970. Rows are taken apart as tuples: by name that takes longer than to send them."""

_OFFSETS_PARTITION: Final = 0
_PURGED: Final = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)  # noqa: SLF001 # Public names.


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a source's copies are written; goes to tasks. `read_to`: what the driver knows of the offsets topic."""

    clients: TargetClients
    alias: str
    read_to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What became of one piece of work; `next` is the source's offset that its next sync begins with.

    Without a failure it is still below the end of the work if there is no record just before that end.
    `skipped` records were in the copy already. Records of time 0 got time 1, since to the client 0 means now.
    """

    topic: str
    partition: int
    next: int
    records: int = 0
    size_bytes: int = 0
    transactions: int = 0
    skipped: int = 0
    moved: int = 0
    failure: Failure | None = None


def write_rows(
    rows: Iterator[Any], *, works: Mapping[tuple[str, int], Work], place: Place
) -> Iterator[Written]:
    """The function of a Spark task, whose rows are of one partition in the order of their offsets."""
    first = next(rows, None)
    if first is not None:
        topic, partition, *_ = first
        work = works[topic, partition]
        yield write(itertools.chain([first], rows), work, place)


def write(rows: Iterable[Any], work: Work, place: Place) -> Written:
    """Writes what of the rows, which have COLUMNS, is not in the copy yet. Errors are in the result."""
    writer = PartitionWriter(work, place)
    return _done(writer, lambda: writer.run(rows))


def note_end(work: Work, place: Place) -> Written:
    """Writes the sync with the end of the work, if the copy is not there yet. Errors are in the result.

    Only for work whose rows are written, all of them, or that has none.
    """
    writer = PartitionWriter(work, place)
    return _done(writer, writer.note_end)


def _done(writer: "PartitionWriter", step: Callable[[], None]) -> Written:
    try:
        step()
    except KafkaException as error:
        return writer.ended(failure(error.args[0], writer.what))
    except WriteStopped as error:
        return writer.ended(error.failure)
    return writer.ended(None)


class WriteStopped(HighwaterError):
    """A transaction cannot be committed; why is in `failure`."""

    reason = "WRITE_STOPPED"

    def __init__(self, found: Failure) -> None:
        """Keep why."""
        super().__init__(found.text)
        self.failure = found


class PartitionWriter:
    """Writes one piece of work, once. One transaction at a time, each with a sync."""

    def __init__(self, work: Work, place: Place) -> None:
        self.what = f"copy {work.copy}-{work.partition} at {place.clients.bootstrap}"
        self._work = work
        self._place = place
        self._offsets_topic = offsets_topic(place.alias)
        self._producer: Any = place.clients.producer(
            transactional_id(place.alias, work.topic, work.partition), work.batch_bytes
        )
        self._newest = work.newest
        self._next = work.start
        # Of the transaction under way:
        self._sent: list[tuple[int, int]] = []
        self._acked: list[int] = []
        self._bytes = 0
        self._began_s = 0.0
        self._is_open = False
        self._failure: Failure | None = None
        # Of the whole work:
        self._records = 0
        self._size_bytes = 0
        self._transactions = 0
        self._skipped = 0
        self._moved = 0

    def run(self, rows: Iterable[Any]) -> None:
        """Writes the rows, and syncs up to behind the last of them. Raises WriteStopped, KafkaException."""
        self._producer.init_transactions(TIMEOUT_S)
        self._take_over()
        for _, _, offset, time_ms, key, value, headers in rows:
            if offset < self._next:
                self._skipped += 1
                continue
            self._send(offset, time_ms, key, value, headers)
            if self._is_full():
                self._commit(offset + 1)
        if self._is_open:
            # Not the end of the work: rows may be missing behind this one.
            last, _ = self._sent[-1]
            self._commit(last + 1)

    def note_end(self) -> None:
        """Writes a sync with the end of the work, where none is so far. Raises WriteStopped, KafkaException."""
        self._producer.init_transactions(TIMEOUT_S)
        self._take_over()
        if self._is_due():
            self._commit(self._work.end)

    def ended(self, found: Failure | None) -> Written:
        """Returns what was done; aborts what is open if there is a failure."""
        if found is not None and self._is_open and found.trouble is not Trouble.TAKEN_OVER:
            try:
                self._producer.abort_transaction(TIMEOUT_S)
            except KafkaException as error:
                # The next init_transactions aborts it, or the coordinator in a while.
                text = f"{found.text} (and it was not aborted: {error.args[0].str()})"
                found = Failure(trouble=found.trouble, text=text)
        return Written(
            topic=self._work.topic,
            partition=self._work.partition,
            next=self._next,
            records=self._records,
            size_bytes=self._size_bytes,
            transactions=self._transactions,
            skipped=self._skipped,
            moved=self._moved,
            failure=found,
        )

    def _take_over(self) -> None:
        """Learns where the partition stands, now that nobody else writes it."""
        work = self._work
        try:
            part = read_part(
                self._place.clients, self._offsets_topic, self._place.read_to, wait_s=OPEN_WAIT_S
            )
        except HighwaterError as error:
            raise WriteStopped(Failure(trouble=Trouble.AWAY, text=str(error))) from error
        if not part.is_whole:
            text = f"{self.what}: a transaction in {self._offsets_topic} stays open"
            raise WriteStopped(Failure(trouble=Trouble.AWAY, text=text))
        for record in part.records:
            if isinstance(record, Sync) and (record.topic, record.partition) == (
                work.copy,
                work.partition,
            ):
                self._newest = record
        if self._newest is None:
            return
        if is_of(self._newest, work.source_id, work.copy_id):
            self._next = max(work.start, self._newest.source_next)
        elif self._newest != work.newest:
            text = f"{self.what}: another mirror writes it, of other topics of these names"
            raise WriteStopped(Failure(trouble=Trouble.TAKEN_OVER, text=text))

    def _is_due(self) -> bool:
        """Whether no sync says yet that the partition stands where the work ends."""
        newest, work = self._newest, self._work
        if newest is None or not is_of(newest, work.source_id, work.copy_id):
            return True
        return newest.source_next < work.end

    def _is_full(self) -> bool:
        return (
            len(self._sent) >= RECORDS_MAX
            or self._bytes >= BYTES_MAX
            or time.monotonic() - self._began_s >= SECONDS_MAX
        )

    def _begin(self) -> None:
        self._producer.begin_transaction()
        self._is_open = True
        self._began_s = time.monotonic()
        self._sent.clear()
        self._acked.clear()
        self._bytes = 0

    def _send(self, offset: int, time_ms: int, key: Any, value: Any, headers: Any) -> None:
        if not self._is_open:
            self._begin()
        if time_ms == 0:
            self._moved += 1
            time_ms = 1
        size = len(key or b"") + len(value or b"")
        # First: whether it is too large may be said at once, or by the acknowledgement.
        self._sent.append((offset, size))
        self._bytes += size
        for _ in range(FULL_QUEUE_TRIES_MAX):
            try:
                self._producer.produce(
                    self._work.copy,
                    _bytes(value),
                    key=_bytes(key),
                    partition=self._work.partition,
                    timestamp=time_ms,
                    headers=[(name, _bytes(content)) for name, content in headers or ()],
                    on_delivery=self._acknowledged,
                )
            except BufferError:
                self._producer.poll(FULL_QUEUE_WAIT_S)
            except KafkaException as error:
                raise WriteStopped(self._explained(error.args[0], len(self._sent) - 1)) from error
            else:
                self._producer.poll(0)
                self._check()
                return
            self._check()
        text = f"{self.what}: no record was acknowledged in time"
        raise WriteStopped(Failure(trouble=Trouble.AWAY, text=text))

    def _commit(self, source_next: int) -> None:
        if not self._is_open:
            self._begin()
        left = self._producer.flush(TIMEOUT_S)
        self._check()
        if left or len(self._acked) != len(self._sent):
            text = f"{self.what}: {left} records were not acknowledged in time"
            raise WriteStopped(Failure(trouble=Trouble.AWAY, text=text))
        sync = self._sync(source_next)
        self._producer.produce(
            self._offsets_topic, value_of(sync), key=key_of(sync), partition=_OFFSETS_PARTITION
        )
        self._producer.commit_transaction(TIMEOUT_S)
        self._is_open = False
        self._newest = sync
        self._next = source_next
        self._records += len(self._sent)
        self._size_bytes += self._bytes
        self._transactions += 1

    def _sync(self, source_next: int) -> Sync:
        work, newest = self._work, self._newest
        is_same = newest is not None and is_of(newest, work.source_id, work.copy_id)
        stood = newest.copy_next if newest is not None and is_same else 0
        # An acknowledgement that was repeated may not tell the offset: then nothing is exact.
        first = self._acked[0] if self._acked and self._acked[0] >= 0 else stood
        return Sync(
            topic=work.copy,
            partition=work.partition,
            number=1 if newest is None else newest.number + 1,
            source_id=work.source_id,
            copy_id=work.copy_id,
            source_first=self._next,
            source_next=source_next,
            copy_first=first,
            copy_next=max(first, *(offset + 1 for offset in self._acked)) if self._acked else first,
            records=len(self._sent),
        )

    def _acknowledged(self, error: Any, message: Any) -> None:
        if error is None:
            self._acked.append(int(message.offset()))
        elif self._failure is None and error.code() not in _PURGED:
            # Acknowledgements come in the order of the records.
            self._failure = self._explained(error, len(self._acked))

    def _explained(self, error: Any, index: int) -> Failure:
        error = self._cause(error)
        found = failure(error, self.what)
        offset, size = self._sent[index] if index < len(self._sent) else (self._next, 0)
        record = f"the record at offset {offset} of {self._work.topic}-{self._work.partition}"
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            advice = "raise max.message.bytes of the copy, or let --compression make it fit"
            return Failure(
                trouble=Trouble.REFUSED,
                text=f"{self.what}: {record}, of {size} bytes, is too large: {advice}",
            )
        return Failure(trouble=found.trouble, text=f"{found.text} ({record})")

    def _cause(self, error: Any) -> Any:
        """Returns why a producer is over, of which `produce` only says that it is."""
        if error.code() != KafkaError._FATAL:  # noqa: SLF001 # Its public name.
            return error
        try:
            self._producer.begin_transaction()
        except KafkaException as why:
            return why.args[0]
        return error

    def _check(self) -> None:
        if self._failure is not None:
            raise WriteStopped(self._failure)


def _bytes(value: Any) -> bytes | None:
    """Spark gives bytearrays, which the client does not take."""
    return None if value is None else bytes(value)
