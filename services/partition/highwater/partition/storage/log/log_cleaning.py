"""Compaction, as the log sees it: one new segment replaces the sealed segments it was made of.

`recovery.compaction_swap` has the order of renames, which a crash may interrupt;
`storage.cleaning` does the work.
"""

import os
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.filesystem import FileSystem, sync_if_present
from highwater.partition.storage.log.log_durability import LogDurability
from highwater.partition.storage.log.log_segments import LogSegments
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.log.segment_lookup import SegmentLookup
from highwater.partition.storage.log.segment_removal import SegmentRemoval
from highwater.partition.storage.names import GAPS_MARKER
from highwater.partition.storage.recovery.segment_ends import Gaps, write_gaps
from highwater.partition.storage.segment import index, time_index
from highwater.partition.storage.segment.segment import Segment, SegmentSpan


class Cleaning(Protocol):
    """A running cleaning of a log."""

    end_offset: int
    """It cleans segments before this offset."""

    def abort(self) -> None:
        """End it at once and for good, because its segments change or are removed."""
        ...


class LogCleaning:
    """How far one log is cleaned, whether it may have gaps, and the replacement of segments."""

    __slots__ = (
        "_durability",
        "_lookup",
        "_place",
        "_removal",
        "_segments",
        "first_dirty",
        "running",
    )

    def __init__(
        self,
        place: LogPlace,
        segments: LogSegments,
        lookup: SegmentLookup,
        *,
        durability: LogDurability,
        removal: SegmentRemoval,
        first_dirty: int,
    ) -> None:
        """`first_dirty` comes from the cleaner's checkpoint; 0 if it has none."""
        self._place = place
        self._segments = segments
        self._lookup = lookup
        self._durability = durability
        self._removal = removal
        self.running: Cleaning | None = None
        """Set by the cleaner while it cleans this log."""
        self.first_dirty = min(first_dirty, segments.end_offset)
        """The end of the last cleaning; records from here on were never cleaned."""

    def spans(self) -> list[SegmentSpan]:
        """The sealed segments, oldest first. Raises LogDirFailure, CorruptLogError.

        Their largest timestamps are read only if min.compaction.lag.ms is set.
        """
        timed = self._place.config.min_compaction_lag_ms > 0
        return [
            SegmentSpan(
                base_offset=segment.base_offset,
                next_offset=following,
                size=segment.size,
                index_bytes=max(
                    len(segment.index) * index.ENTRY_BYTES,
                    len(segment.time_index) * time_index.ENTRY_BYTES,
                ),
                max_timestamp=self._lookup.largest_timestamp(segment)
                if timed
                else time_index.NO_TIMESTAMP,
            )
            for segment, following in self._segments.sealed()
        ]

    def waiting_since(self, first_dirty: int, end: int) -> int | None:
        """The oldest first timestamp of the dirty segments before `end`; None if none has one.

        max.compaction.lag.ms counts from it (Kafka's `LogCleanerManager.maxCompactionDelay`).
        """
        begins = (
            self._lookup.first_timestamp(segment)
            for segment, following in self._segments.sealed()
            if following > first_dirty and segment.base_offset < end and segment.size
        )
        return min((timestamp for timestamp in begins if timestamp > 0), default=None)

    def mark_gaps(self) -> None:
        """Write the marker that the log may have gaps, before the first gap is written, and sync it
        on the worker: a follower gets the gap with the next batch, and its loop waits for no disk.

        Without it recovery would take a gap for a loss and truncate there. Raises LogDirFailure.
        """
        if self._segments.gaps:
            return
        filesystem, directory = self._place.filesystem, self._place.directory
        try:
            write_gaps(filesystem, directory, Gaps.INSIDE)
        except OSError as error:
            raise LogDirFailure(directory, error) from error
        self._segments.gaps = True
        self._durability.names_changed()
        # Before any flush that syncs the directory, as the worker keeps the order.
        self._place.environment.run_later(partial(_sync_marker, filesystem, directory), _nothing)

    def gaps_marked(self) -> None:
        """The marker is on disk (`segment_ends.write_gaps_inside`): gaps may follow."""
        self._segments.gaps = True

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace adjacent sealed segments by `new`, whose files are in the directory.

        Raises LogDirFailure.
        """
        assert self._segments.gaps or len(old) == 1, (
            "only a repair keeps all of a segment's records"
        )
        try:
            self._removal.replace(old, new)
        except OSError as error:
            raise LogDirFailure(self._place.directory, error) from error

    def stop(self, offset: int = 0) -> None:
        """Abort a cleaning of records at or behind `offset`: their segments are about to change."""
        if self.running is not None and offset < self.running.end_offset:
            running, self.running = self.running, None
            running.abort()

    def cut(self, end: int) -> None:
        """The log was truncated to `end`."""
        self.first_dirty = min(self.first_dirty, end)

    def emptied(self, offset: int) -> None:
        """The log was emptied and begins at `offset`."""
        self.cut(offset)


def _sync_marker(filesystem: FileSystem, directory: str) -> None:
    """Fine if the log is gone: it has taken the marker with it."""
    try:
        sync_if_present(filesystem, os.path.join(directory, GAPS_MARKER))
    except OSError as error:
        raise LogDirFailure(directory, error) from error


def _nothing() -> None:
    """Do nothing after the sync."""
