"""One pass over a log in the child process: fills the offset map, then writes new files.

It reads sealed segments and writes `<base>.*.cleaned`; the node does everything else. A group is
reported when its files are on disk.
"""

import os
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from highwater.kafka.records.batch import RecordBatchView, is_control
from highwater.partition.core.transactions import AbortedTransaction
from highwater.partition.storage.cleaning.cleaned_transactions import CleanedTransactions
from highwater.partition.storage.cleaning.compaction import (
    ActiveProducers,
    CleaningReport,
    CleaningRules,
    OffsetMap,
    clean,
)
from highwater.partition.storage.cleaning.compaction_plan import grouped
from highwater.partition.storage.cleaning.job import (
    CleaningDone,
    CleaningJob,
    GroupWritten,
    Progress,
    Report,
)
from highwater.partition.storage.cleaning.pace import Pace
from highwater.partition.storage.cleaning.segment_batches import batches_of
from highwater.partition.storage.errors import StorageError
from highwater.partition.storage.filesystem import (
    FileSystem,
    sync_directory,
    sync_if_present,
    unlink_if_present,
    write_all,
)
from highwater.partition.storage.names import CLEANED_SUFFIX, LOG_SUFFIX, offset_file
from highwater.partition.storage.recovery.recovery import IndexBuilder
from highwater.partition.storage.segment.handles import HandleClock
from highwater.partition.storage.segment.segment import Segment, SegmentFactory, SegmentSpan
from highwater.partition.storage.segment.time_index import NO_TIMESTAMP
from highwater.partition.storage.segment.transaction_index import unpack_all

WRITE_BYTES: Final = 1 << 20
"""Bytes that are gathered before a write."""
PROGRESS_BYTES: Final = 4 << 20
"""Bytes that are read between two reports; takes less than a second on any disk."""
_OPEN_MAX: Final = 8


class MapTooSmallError(StorageError):
    """A single batch may have more keys than the offset map takes."""


class LogCleaner:
    """Runs one job; used once."""

    def __init__(
        self,
        job: CleaningJob,
        tell: Callable[[Report], None],
        filesystem: FileSystem | None = None,
        pace: Pace | None = None,
    ) -> None:
        """`tell` sends a report to the node; `pace` defaults to the job's rate."""
        self._job = job
        self._tell = tell
        self._filesystem = filesystem or FileSystem()
        self._rules = CleaningRules(now_ms=job.now_ms, delete_retention_ms=job.delete_retention_ms)
        self._report = CleaningReport()
        self._producers = ActiveProducers(
            last_offsets=job.producers, marked_epochs=job.marked_producers
        )
        self._aborted = unpack_all(b64decode(job.aborted))
        self._read_bytes = 0
        self._told_bytes = 0
        self._pace = pace or Pace(job.io_bytes_per_s, alive=self._tell_progress)
        self._factory = SegmentFactory(
            job.directory,
            index_bytes=job.index_bytes_max,
            filesystem=self._filesystem,
            files=HandleClock(_OPEN_MAX),
            maps=HandleClock(_OPEN_MAX),
        )

    def run(self) -> CleaningDone:
        """Run the whole pass.

        Raises OSError, CorruptLogError, RecordsError (a batch whose records cannot be read) and
        MapTooSmallError; groups reported before stay valid.
        """
        offsets = self._dirty_keys()
        next_dirty = offsets.latest + 1
        spans = [span for span in self._spans() if span.base_offset < next_dirty]
        transactions = CleanedTransactions(self._aborted)
        for group in grouped(
            spans,
            segment_bytes=self._job.segment_bytes,
            index_bytes_max=self._job.index_bytes_max,
        ):
            self._write_group(group, offsets, transactions)
        return CleaningDone(
            next_dirty=next_dirty,
            records_kept=self._report.records_kept,
            records_dropped=self._report.records_dropped,
        )

    def _spans(self) -> list[SegmentSpan]:
        job = self._job
        return [
            SegmentSpan(
                base_offset=base,
                next_offset=following,
                size=size,
                index_bytes=index_bytes,
                max_timestamp=-1,
            )
            for (base, following, size), index_bytes in zip(
                job.segments, job.index_bytes, strict=True
            )
        ]

    def _dirty_keys(self) -> OffsetMap:
        """The newest offset of every key in the dirty part, or in as much of it as fits."""
        offsets = OffsetMap(self._job.keys_max)
        transactions = CleanedTransactions(self._aborted, self._job.first_dirty)
        dirty = [s for s in self._job.segments if s[1] > self._job.first_dirty]
        for base, following, size in dirty:
            for batch in self._batches(base, size, from_offset=self._job.first_dirty):
                if transactions.read(batch) or is_control(batch.attributes):
                    offsets.skip(batch)
                elif not offsets.add(batch, self._rules):
                    if not len(offsets):
                        raise MapTooSmallError(
                            f"the batch at offset {batch.base_offset} has {batch.record_count} "
                            f"records, the offset map takes {self._job.keys_max} keys"
                        )
                    return offsets
            # Records of a gap at the segment's end were in the map of an earlier pass.
            offsets.latest = max(offsets.latest, following - 1)
        return offsets

    def _batches(self, base: int, size: int, *, from_offset: int = 0) -> Iterator[RecordBatchView]:
        path = os.path.join(self._job.directory, offset_file(base, LOG_SUFFIX))
        for batch in batches_of(self._filesystem, path, size, from_offset=from_offset):
            self._read_bytes += batch.size
            if self._read_bytes - self._told_bytes >= PROGRESS_BYTES:
                self._tell_progress()
            self._pace.passed(batch.size)
            yield batch

    def _tell_progress(self) -> None:
        self._told_bytes = self._read_bytes
        self._tell(Progress(nbytes=self._read_bytes))

    def _write_group(
        self, group: list[SegmentSpan], offsets: OffsetMap, transactions: CleanedTransactions
    ) -> None:
        base = group[0].base_offset
        batches = (batch for span in group for batch in self._batches(span.base_offset, span.size))
        segment = self._factory.empty(base, CLEANED_SUFFIX, now_ms=self._job.now_ms)
        file = _NewFile(self._filesystem, segment, self._job.index_interval, self._pace)
        changed = len(group) > 1
        transactions.kept.clear()
        cleaned = clean(batches, offsets, self._rules, self._producers, self._report, transactions)
        try:
            for data in cleaned:
                # An unchanged batch is a view of what was read.
                changed = changed or not isinstance(data, memoryview)
                file.add(bytes(data))
            before = sum(span.size for span in group)
            changed = changed or file.size != before
            if changed:
                file.finish(self._newest_change(group), transactions.kept)
        finally:
            file.close()
        if not changed:
            for path in file.paths:
                unlink_if_present(self._filesystem, path)
            return
        sync_directory(self._filesystem, self._job.directory)
        self._tell(
            GroupWritten(
                bases=[span.base_offset for span in group],
                bytes_before=before,
                bytes_after=file.size,
            )
        )

    def _newest_change(self, group: Iterable[SegmentSpan]) -> int:
        """When the newest of the old files was written, in nanoseconds; the new file's mtime."""
        paths = [offset_file(span.base_offset, LOG_SUFFIX) for span in group]
        return max(
            self._filesystem.stat(os.path.join(self._job.directory, path)).st_mtime_ns
            for path in paths
        )


class _NewFile:
    """A segment that is being written, with its indexes."""

    def __init__(
        self, filesystem: FileSystem, segment: Segment, index_interval: int, pace: Pace
    ) -> None:
        self._filesystem = filesystem
        self._pace = pace
        self._segment = segment
        self.paths = tuple(segment.paths())
        for path in self.paths:
            unlink_if_present(filesystem, path)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._fd = filesystem.open(segment.file, flags, 0o644)
        self._builder = IndexBuilder(segment, index_interval)
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._written = 0

    @property
    def size(self) -> int:
        """Bytes added so far."""
        return self._written + self._waiting_bytes

    def add(self, batch: bytes) -> None:
        """Append a batch."""
        view = RecordBatchView(batch, 0, len(batch))
        # As in Kafka: no search by timestamp should lead to a header without records.
        timestamp = view.max_timestamp if view.record_count else NO_TIMESTAMP
        self._builder.add(self.size, len(batch), view.last_offset, timestamp)
        self._waiting.append(batch)
        self._waiting_bytes += len(batch)
        if self._waiting_bytes >= WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        data = b"".join(self._waiting)
        write_all(self._filesystem, self._fd, data, self._written)
        self._pace.passed(len(data))
        self._written += len(data)
        self._waiting.clear()
        self._waiting_bytes = 0

    def finish(self, changed_ns: int, aborted: Iterable[AbortedTransaction]) -> None:
        """Write the rest, with the entries of `aborted` transactions, and sync all files."""
        self._write()
        os.utime(self._fd, ns=(changed_ns, changed_ns))
        self._segment.seal()
        for one in aborted:
            self._segment.transactions.append(one)
        for path in self.paths:
            sync_if_present(self._filesystem, path)

    def close(self) -> None:
        """Close the file, finished or not."""
        self._filesystem.close(self._fd)
