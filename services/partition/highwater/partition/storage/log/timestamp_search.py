"""Finds records by timestamp in a whole log (ListOffsets); off the hot path."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from highwater.partition.storage.errors import DamagedHeaderError
from highwater.partition.storage.log.log_segments import LogSegments
from highwater.partition.storage.log.lost_ranges import LostRanges
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.log.segment_lookup import SegmentLookup
from highwater.partition.storage.log.timestamp_lookup import first_at_or_after, first_with_largest
from highwater.partition.storage.segment.segment import Segment

_T = TypeVar("_T")


class TimestampSearch:
    """Searches one log. Both methods raise LogDirFailure, and CorruptLogError at damage that is not
    known yet.
    """

    __slots__ = ("_filesystem", "_lookup", "_lost", "_segments")

    def __init__(
        self, place: LogPlace, segments: LogSegments, lookup: SegmentLookup, lost: LostRanges
    ) -> None:
        """All belong to the log."""
        self._filesystem = place.filesystem
        self._segments = segments
        self._lookup = lookup
        self._lost = lost

    def first_at_or_after(self, timestamp: int) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record with at least `timestamp`.

        Searches up to the log end offset; the caller discards what is not committed. None if all
        records are older.
        """
        pread, start = self._filesystem.pread, self._segments.start_offset
        for segment in self._segments.from_offset(start):
            if self._in(segment, segment.largest_timestamp) < timestamp:
                continue
            look_up = partial(first_at_or_after, pread, segment, timestamp, start)
            found = self._in(segment, look_up)
            if found is not None:
                return found
        return None

    def first_with_largest(self) -> tuple[int, int]:
        """(timestamp, offset) of the first record with the largest timestamp; (-1, -1) if none."""
        pread = self._filesystem.pread
        best = (-1, -1)
        newest_first = sorted(
            self._segments.all, key=lambda s: self._in(s, s.largest_timestamp), reverse=True
        )
        for segment in newest_first:
            if segment.largest_timestamp() <= best[0]:
                break  # Usually after the first one; more are searched if a segment has no records.
            found = self._in(segment, partial(first_with_largest, pread, segment))
            if found is not None and found[0] > best[0]:
                best = found
        return best

    def _in(self, segment: Segment, look_up: Callable[[], _T]) -> _T:
        """Run a look-up in a segment. Known damage is no error: batches behind it in the segment
        are skipped.
        """
        try:
            return self._lookup.with_indexes(segment, look_up)
        except DamagedHeaderError as error:
            if not self._lost.has(error.first):
                raise
        return self._lookup.with_indexes(segment, look_up)
