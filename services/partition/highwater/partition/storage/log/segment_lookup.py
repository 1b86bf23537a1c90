"""Finds batches of a segment by its indexes, and rebuilds indexes that disagree with it."""

from collections.abc import Callable
from typing import TypeVar

from highwater.partition.storage.errors import (
    CorruptIndexError,
    CorruptLogError,
    DamagedHeaderError,
    LogDirFailure,
)
from highwater.partition.storage.log.log_segments import LogSegments
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.recovery.recovery import rebuild_indexes
from highwater.partition.storage.segment.batches import find_batch, last_boundary
from highwater.partition.storage.segment.segment import Segment

_T = TypeVar("_T")


class SegmentLookup:
    """Look-ups in the segments of one log. Lives as long as the log."""

    __slots__ = ("_place", "_segments")

    def __init__(self, place: LogPlace, segments: LogSegments) -> None:
        """Both belong to the log."""
        self._place = place
        self._segments = segments

    def find(self, segment: Segment, offset: int) -> tuple[int, int, int, int] | None:
        """(position, base offset, next offset, bytes) of the first batch that ends at or after
        `offset`; None if the segment has none. Raises CorruptIndexError, CorruptLogError, OSError.
        """
        start = segment.index.floor(offset)
        if start > segment.size:
            raise CorruptIndexError(f"{segment.index.file.path} points behind its segment")
        found = find_batch(
            self._place.filesystem.pread,
            segment.fd if segment.fd >= 0 else segment.open(),
            position=start,
            limit=segment.size,
            offset=offset,
        )
        if found is not None and found[1] > offset and found[0] == start > 0:
            raise CorruptIndexError(f"{segment.index.file.path} points behind offset {offset}")
        return found

    def end_before(self, segment: Segment, position: int) -> int:
        """The offset after the batch that ends at `position`. A log must not end with a gap,
        because no reader could pass it. Raises CorruptIndexError, CorruptLogError, OSError.
        """
        if not position:
            return segment.base_offset
        start = segment.index.floor_position(position - 1)
        pread = self._place.filesystem.pread
        end, following = last_boundary(pread, segment.open(), position=start, limit=position)
        if end != position:
            raise CorruptIndexError(f"{segment.path}: no batch ends at {position}")
        return following

    def largest_timestamp(self, segment: Segment) -> int:
        """As `Segment.largest_timestamp`, even if the segment's indexes are wrong."""
        return self.with_indexes(segment, segment.largest_timestamp)

    def first_timestamp(self, segment: Segment) -> int:
        """The largest timestamp of a segment's first batch. Raises LogDirFailure."""
        try:
            return segment.load_first_timestamp()
        except OSError as error:
            raise LogDirFailure(segment.file, error) from error

    def with_indexes(self, segment: Segment, look_up: Callable[[], _T]) -> _T:
        """Run a look-up; if the indexes turn out to be wrong, rebuild them and run it once more.

        Raises what `repair` and the look-up raise; OSError becomes LogDirFailure.
        """
        try:
            try:
                return look_up()
            except (CorruptIndexError, CorruptLogError):
                self.repair(segment)
            return look_up()
        except OSError as error:
            raise LogDirFailure(segment.file, error) from error

    def repair(self, segment: Segment) -> None:
        """Rebuild a segment's indexes, which disagree with it. If the segment itself is damaged,
        raises DamagedHeaderError; its end is known if the segment is sealed. Indexes and largest
        timestamp then cover the batches before the damage. Also raises OSError.
        """
        segments = self._segments
        segments.positions.clear()
        sealed = segment is not segments.active
        try:
            rebuild_indexes(
                self._place.filesystem,
                segment,
                index_interval=self._place.config.index_interval_bytes,
                end_offset=segments.end_of(segment),
            )
        except DamagedHeaderError as error:
            if sealed:
                error.end = segments.end_of(segment)
                segment.damaged_at = error.position
                segment.seal()
            raise
        segment.damaged_at = None
        if sealed:
            segment.seal()
