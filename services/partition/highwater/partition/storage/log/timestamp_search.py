"""Finds records by timestamp in a whole log (ListOffsets); off the hot path.

A search is a generator: it finds a batch by indexes and headers, yields a question to that batch, and
takes the answer. So the caller may have the batch read and decoded on another thread. The log may
change meanwhile: a search goes on with the segments that are there then, and ends if the log was cut
or deleted, when its result means nothing.
"""

from collections.abc import Callable, Generator
from functools import partial
from typing import TypeAlias, TypeVar

from highwater.partition.storage.errors import DamagedHeaderError
from highwater.partition.storage.log.log_segments import LogSegments
from highwater.partition.storage.log.lost_ranges import LostRanges
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.log.segment_lookup import SegmentLookup
from highwater.partition.storage.log.timestamp_lookup import (
    BatchQuestion,
    Found,
    batch_with_largest,
    first_batch,
    largest_with_records,
)
from highwater.partition.storage.segment.segment import Segment

_T = TypeVar("_T")

Search: TypeAlias = Generator[BatchQuestion, Found | None, Found | None]
"""Yields questions and is sent their answers; returns what was found."""


class TimestampSearch:
    """Searches one log. All searches raise LogDirFailure, and CorruptLogError at damage that is not
    known yet.
    """

    __slots__ = ("_life", "_lookup", "_lost", "_place", "_pread", "_segments")

    def __init__(
        self, place: LogPlace, segments: LogSegments, lookup: SegmentLookup, lost: LostRanges
    ) -> None:
        """All belong to the log."""
        self._place = place
        self._life = place.life
        self._pread = place.filesystem.pread
        self._segments = segments
        self._lookup = lookup
        self._lost = lost

    def relocated(self) -> None:
        """The log's files are in another log directory. A search that is under way may have passed
        over segments that are closed now; whoever runs it has to begin it again.
        """
        self._pread = self._place.filesystem.pread

    def first_at_or_after(self, timestamp: int) -> Search:
        """The first record with at least `timestamp`, None if all are older.

        Searches up to the log end offset; the caller discards what is not committed.
        """
        truncations = self._life.truncations
        start = self._segments.start_offset
        while (question := self._first_batch(timestamp, start)) is not None:
            found = yield question
            if found is not None or not self._same_log(truncations):
                return found
            start = question.next_offset
        return None

    def first_with_largest(self) -> Search:
        """The first record with the largest timestamp, None if there is none."""
        best: Found | None = None
        truncations = self._life.truncations
        newest_first = sorted(
            self._segments.all, key=lambda s: self._in(s, s.largest_timestamp), reverse=True
        )
        for segment in newest_first:
            if segment.deleted:
                continue
            largest = segment.largest_timestamp()
            if largest < 0 or (best is not None and largest <= best.timestamp):
                break  # Usually after the first one; more are searched if a segment has no records.
            found = yield from self._first_with(batch_with_largest, segment, largest)
            if found is None and self._same_log(truncations) and not segment.deleted:
                largest = self._in(segment, partial(largest_with_records, self._pread, segment))
                if largest >= 0:
                    found = yield from self._first_with(first_batch, segment, largest)
            if found is not None and (best is None or found.timestamp > best.timestamp):
                best = found
            if not self._same_log(truncations):
                break
        return best

    def _first_with(
        self,
        look_up: Callable[..., BatchQuestion | None],
        segment: Segment,
        timestamp: int,
    ) -> Search:
        """The first record of the segment with at least `timestamp`."""
        truncations = self._life.truncations
        start = segment.base_offset
        while not segment.deleted and self._same_log(truncations):
            question = self._in(segment, partial(look_up, self._pread, segment, timestamp, start))
            if question is None:
                break
            found = yield question
            if found is not None:
                return found
            start = question.next_offset
        return None

    def _first_batch(self, timestamp: int, start: int) -> BatchQuestion | None:
        """The first batch from offset `start` on that may have such a record."""
        for segment in self._segments.from_offset(start):
            if self._in(segment, segment.largest_timestamp) < timestamp:
                continue
            found = self._in(segment, partial(first_batch, self._pread, segment, timestamp, start))
            if found is not None:
                return found
        return None

    def _same_log(self, truncations: int) -> bool:
        """Whether the log was neither cut nor deleted since it had been cut so often."""
        return self._life.truncations == truncations and not self._life.ended

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
