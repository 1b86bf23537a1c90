"""Deletes records at the start of a log: DeleteRecords, and retention by time and size."""

from collections.abc import Callable, Sequence

from highwater.partition.storage.errors import (
    CorruptIndexError,
    CorruptLogError,
    LogDirFailure,
    OffsetOutOfRange,
)
from highwater.partition.storage.log.log_cleaning import LogCleaning
from highwater.partition.storage.log.log_events import FollowsStart
from highwater.partition.storage.log.log_segments import LogSegments
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.log.retention import expired_segments
from highwater.partition.storage.log.segment_lookup import SegmentLookup
from highwater.partition.storage.log.segment_removal import SegmentRemoval
from highwater.partition.storage.segment.segment import Segment
from highwater.partition.storage.segment.time_index import NO_TIMESTAMP


class LogDeletion:
    """Moves one log's start offset forward."""

    __slots__ = ("_cleaning", "_lookup", "_place", "_removal", "_segments", "_listeners")

    def __init__(
        self,
        place: LogPlace,
        segments: LogSegments,
        lookup: SegmentLookup,
        *,
        removal: SegmentRemoval,
        cleaning: LogCleaning,
        listeners: Sequence[FollowsStart],
    ) -> None:
        """All belong to the log. `listeners` are notified of each new log start offset."""
        self._place = place
        self._segments = segments
        self._lookup = lookup
        self._listeners = listeners
        self._removal = removal
        self._cleaning = cleaning

    def advance_start(self, offset: int, *, remove: bool = True) -> None:
        """Set the log start offset to `offset` if that is higher; delete segments wholly before it,
        or, unless `remove`, leave them to the next retention.

        The caller keeps `offset` at or below the high watermark. Raises OffsetOutOfRange if it is
        behind the log end offset, LogDirFailure.
        """
        segments = self._segments
        if offset <= segments.start_offset:
            return
        if offset > segments.end_offset:
            raise OffsetOutOfRange(offset, segments.start_offset, segments.end_offset)
        self._start_at(offset)
        if remove:
            self.delete_before(offset)

    def delete_before(self, offset: int) -> int:
        """Delete the sealed segments that end at or before `offset`; return how many.

        Files are renamed now and removed after file.delete.delay.ms, so that readers that have
        them open can finish. Raises LogDirFailure.
        """
        segments = self._segments
        count = segments.number_of(offset)
        if count <= 0:
            return 0
        self._cleaning.stop()
        try:
            self._removal.drop(segments.all[:count])
        except OSError as error:
            raise LogDirFailure(self._place.directory, error) from error
        if segments.first_base > segments.start_offset:
            self._start_at(segments.first_base)
        return count

    def _start_at(self, offset: int) -> None:
        self._segments.start_offset = offset
        for part in self._listeners:
            part.start_moved(offset)

    def apply_retention(self, *, high_watermark: int, roll: Callable[[], None]) -> int:
        """Delete segments that have outlived the topic's retention, or lie before the log start
        offset; return how many.

        `roll` begins a new segment; it is called first if the active one is to be deleted.
        """
        segments = self._segments
        removed = self.delete_before(segments.start_offset)
        count = expired_segments(
            segments.all,
            segments.end_offset,
            config=self._place.config,
            high_watermark=high_watermark,
            now_ms=self._place.clock.wall_ms(),
            timestamp_of=self._timestamp,
        )
        if not count:
            return removed
        if count == len(segments):
            roll()
        return removed + self.delete_before(segments.all[count].base_offset)

    def _timestamp(self, segment: Segment) -> int:
        """The segment's largest timestamp; the file's age counts if it is damaged, so that one
        segment does not stop the retention of its log, nor of all others.
        """
        try:
            return self._lookup.largest_timestamp(segment)
        except (CorruptIndexError, CorruptLogError):
            return NO_TIMESTAMP
