"""What compaction does to a log: sealed segments give way to one that was made of them.

`log.py` has the whole log and its invariants, `compaction_swap` the order of renames that a crash
may cut off, `cleaning` who does the work.
"""

import os
from collections.abc import Sequence
from typing import Any, Protocol

from highwater.partition.storage.cleaning.compaction_plan import SegmentSpan
from highwater.partition.storage.errors import CorruptIndexError, LogDirFailure
from highwater.partition.storage.log import producer_snapshots
from highwater.partition.storage.log.late_writer import LateLogWriter
from highwater.partition.storage.names import DELETED_SUFFIX, GAPS_MARKER
from highwater.partition.storage.recovery.loader import LoadedLog
from highwater.partition.storage.segment import index, time_index
from highwater.partition.storage.segment.batches import last_boundary
from highwater.partition.storage.segment.segment import Segment


class Cleaning(Protocol):
    """A cleaning of a log that is under way, as the log sees it."""

    end_offset: int
    """It concerns what lies before."""

    def abort(self) -> None:
        """Ends it, at once and for good: segments that it has to do with change or go."""
        ...


class CleanableLog(LateLogWriter):
    """A log that can be compacted; see `PartitionLog`."""

    __slots__ = ("cleaning", "first_dirty")

    def __init__(
        self, directory: str, loaded: LoadedLog, *, first_dirty: int, **place: Any
    ) -> None:
        """`first_dirty` comes from the cleaner's checkpoint, 0 if it has none. `place`: as for
        `LogWriter`.
        """
        super().__init__(directory, loaded, **place)
        self.cleaning: Cleaning | None = None
        """Set by the cleaner as long as it is at work here."""
        self.first_dirty = min(first_dirty, self.log_end_offset)
        """Where the last cleaning has ended; what lies behind it was never cleaned."""

    def spans(self) -> list[SegmentSpan]:
        """The sealed segments, oldest first. Raises LogDirFailure, CorruptLogError.

        Their largest timestamps are looked up only if min.compaction.lag.ms asks for them.
        """
        timed = self.config.min_compaction_lag_ms > 0
        return [
            SegmentSpan(
                base_offset=segment.base_offset,
                next_offset=following,
                size=segment.size,
                index_bytes=max(
                    len(segment.index) * index.ENTRY_BYTES,
                    len(segment.time_index) * time_index.ENTRY_BYTES,
                ),
                max_timestamp=self._with_indexes(segment, segment.largest_timestamp)
                if timed
                else time_index.NO_TIMESTAMP,
            )
            for segment, following in zip(self._segments, self._bases[1:], strict=False)
        ]

    def waiting_since(self, first_dirty: int, end: int) -> int | None:
        """The oldest timestamp that dirty segments before `end` begin with; None if none has one.

        What max.compaction.lag.ms counts from (Kafka's `LogCleanerManager.maxCompactionDelay`).
        """
        begins = (
            self._first_timestamp(segment)
            for segment, following in zip(self._segments, self._bases[1:], strict=False)
            if following > first_dirty and segment.base_offset < end and segment.size
        )
        return min((timestamp for timestamp in begins if timestamp > 0), default=None)

    def mark_gaps(self) -> None:
        """Notes in the directory that offsets may be missing, before the first one does.

        Recovery would otherwise take a gap for a loss and cut the log there. Raises LogDirFailure.
        """
        if self.gaps:
            return
        path = os.path.join(self.directory, GAPS_MARKER)
        filesystem = self._environment.filesystem
        try:
            fd = filesystem.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            filesystem.close(fd)
        except OSError as error:
            raise LogDirFailure(path, error) from error
        self.gaps = True
        self._directory_dirty = True

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Puts `new`, whose files are in the directory, in the place of sealed neighbours.

        Their files are renamed now and removed after file.delete.delay.ms; whoever holds them reads
        on. Producer snapshots stay: they tell of offsets, not of files. Raises LogDirFailure.
        """
        first = self._segments.index(old[0])
        stop = first + len(old)
        assert self._segments[first:stop] == list(old)
        assert stop < len(self._segments), "the active segment is never cleaned"
        assert self.gaps or len(old) == 1, "only a repaired segment has the records of the old one"
        doomed: list[str] = []
        try:
            for segment in old:
                doomed += self._rename_away(segment, snapshot=False)
        except OSError as error:
            raise LogDirFailure(self.directory, error) from error
        self._segments[first:stop] = [new]
        self._bases[first:stop] = [new.base_offset]
        self._sealed_bytes = sum(s.size for s in self._segments[:-1])
        self._positions.clear()
        self._environment.delete_later(doomed, self.config.file_delete_delay_ms)

    def _end_before(self, segment: Segment, position: int) -> int:
        """The offset after the batch that ends at `position`: a log must not end with a gap, in
        which nobody who reads it would get on.
        """
        if not position:
            return segment.base_offset
        pread, fd = self._environment.filesystem.pread, segment.open()
        start = segment.index.floor_position(position - 1)
        end, following = last_boundary(pread, fd, position=start, limit=position)
        if end != position:
            raise CorruptIndexError(f"{segment.path}: no batch ends at {position}")
        return following

    def _rename_away(self, segment: Segment, *, snapshot: bool) -> list[str]:
        """Renames a segment's files out of the way and closes it; their new paths."""
        paths = [segment.file, segment.index.path, segment.time_index.path]
        if snapshot:
            paths.append(producer_snapshots.snapshot_path(self.directory, segment.base_offset))
        doomed: list[str] = []
        for path in paths:
            try:
                self._environment.filesystem.rename(path, path + DELETED_SUFFIX)
            except FileNotFoundError:
                continue
            doomed.append(path + DELETED_SUFFIX)
        segment.moved(self.directory, DELETED_SUFFIX)
        segment.close()
        return doomed

    def _stop_cleaning(self, offset: int = 0) -> None:
        """Segments that lie, in part or whole, at or behind `offset` are about to change."""
        if self.cleaning is not None and offset < self.cleaning.end_offset:
            cleaning, self.cleaning = self.cleaning, None
            cleaning.abort()
