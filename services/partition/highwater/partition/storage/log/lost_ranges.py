"""Offsets of records that are known to be damaged: no read gives them, even after a restart."""

import os

from highwater.partition.storage import checkpoint
from highwater.partition.storage.errors import DamagedRecordsError, LogDirFailure
from highwater.partition.storage.filesystem import unlink_if_present
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.names import DAMAGE


class LostRanges:
    """The damaged ranges of one log, stored in a file of its directory. Usually there are none."""

    __slots__ = ("_place", "ranges")

    def __init__(self, place: LogPlace, ranges: tuple[tuple[int, int], ...]) -> None:
        """`ranges` are those that were found on disk."""
        self._place = place
        self.ranges = ranges
        """[first, end) offsets."""

    def add(self, first: int, end: int) -> None:
        """Note that the records from `first` up to `end` are damaged: no read gives them, not even
        after a restart. Raises LogDirFailure.
        """
        self.ranges = (*self.ranges, (first, end))
        self._write()

    def healed(self, first: int, end: int) -> None:
        """The records from `first` up to `end` are sound again. Raises LogDirFailure."""
        before = ((a, min(b, first)) for a, b in self.ranges)
        behind = ((max(a, end), b) for a, b in self.ranges)
        self.ranges = tuple(sorted({(a, b) for a, b in (*before, *behind) if a < b}))
        self._write()

    def cut(self, end: int) -> None:
        """The log was truncated to `end`: ranges behind it end with their records.

        Raises LogDirFailure.
        """
        if any(lost[1] > end for lost in self.ranges):
            kept = ((first, min(stop, end)) for first, stop in self.ranges)
            self.ranges = tuple(lost for lost in kept if lost[0] < lost[1])
            self._write()

    def emptied(self, _offset: int) -> None:
        """The log was emptied: there are no records. Raises LogDirFailure."""
        if self.ranges:
            self.ranges = ()
            self._write()

    def any_from(self, start_offset: int) -> bool:
        """Whether a record at or behind `start_offset` is lost."""
        return any(end > start_offset for _, end in self.ranges)

    def has(self, offset: int) -> bool:
        """Whether the record at `offset` is lost."""
        return any(first <= offset < end for first, end in self.ranges)

    def readable_end(self, offset: int, end_offset: int) -> int:
        """The first offset after `offset` that a read may not return, at most `end_offset`.

        Raises DamagedRecordsError if the record at `offset` is lost.
        """
        for first, end in self.ranges:
            if first <= offset < end:
                raise DamagedRecordsError(
                    f"{self._place.directory}: records {first} to {end - 1} are damaged"
                )
            if offset < first < end_offset:
                end_offset = first
        return end_offset

    def _write(self) -> None:
        path = os.path.join(self._place.directory, DAMAGE)
        try:
            if not self.ranges:
                unlink_if_present(self._place.filesystem, path)
                return
            checkpoint.write_ranges(self._place.filesystem, path, self.ranges, durable=False)
        except OSError as error:
            raise LogDirFailure(path, error) from error
