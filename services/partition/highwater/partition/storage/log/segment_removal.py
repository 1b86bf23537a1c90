"""Removes segments' files from a log, after file.delete.delay.ms.

They are renamed at once, so that a start does not find them. Readers with open files can finish.
"""

from collections.abc import Sequence

from highwater.partition.storage import producer_snapshots
from highwater.partition.storage.log.log_segments import LogSegments
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.names import DELETED_SUFFIX
from highwater.partition.storage.segment.segment import Segment


class SegmentRemoval:
    """Removes segments of one log. All methods raise OSError."""

    __slots__ = ("_place", "_segments")

    def __init__(self, place: LogPlace, segments: LogSegments) -> None:
        """Both belong to the log."""
        self._place = place
        self._segments = segments

    def drop(self, segments: Sequence[Segment]) -> None:
        """Remove segments and the producer snapshots of their base offsets.

        This is done in the given order, so that a crash in between leaves no hole: truncation
        begins at the log's end, retention at its start.
        """
        doomed: list[str] = []
        for segment in segments:
            doomed += self._rename_away(segment, snapshot=True)
            self._segments.remove(segment)
        self._segments.count_sealed()
        self._delete_later(doomed)

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace adjacent sealed segments by `new`, whose files are in the directory.

        Producer snapshots stay: they belong to offsets, not to files.
        """
        self._segments.replace(old, new)
        doomed: list[str] = []
        for segment in old:
            doomed += self._rename_away(segment, snapshot=False)
        self._delete_later(doomed)

    def _rename_away(self, segment: Segment, *, snapshot: bool) -> list[str]:
        """Rename a segment's files and close it; return their new paths."""
        directory = self._place.directory
        paths = segment.paths()
        if snapshot:
            paths.append(producer_snapshots.snapshot_path(directory, segment.base_offset))
        doomed: list[str] = []
        for path in paths:
            try:
                self._place.filesystem.rename(path, path + DELETED_SUFFIX)
            except FileNotFoundError:
                continue
            doomed.append(path + DELETED_SUFFIX)
        segment.moved(directory, DELETED_SUFFIX)
        segment.close()
        return doomed

    def _delete_later(self, paths: list[str]) -> None:
        if paths:
            self._place.environment.delete_later(paths, self._place.config.file_delete_delay_ms)
