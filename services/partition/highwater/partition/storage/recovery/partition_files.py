"""A partition's directory at a start: completes a cleaning, lists segments, removes files.

It does not read records, except for the end of a segment that a cleaner has just written.
"""

import os
from collections.abc import Sequence
from typing import Final, assert_never

from highwater.partition.storage.errors import CorruptLogError
from highwater.partition.storage.filesystem import FileSystem, sync_directory, unlink_if_present
from highwater.partition.storage.names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_file,
    parse_offset_file,
    stray_directory,
)
from highwater.partition.storage.recovery import compaction_swap
from highwater.partition.storage.segment.batches import headers
from highwater.partition.storage.segment.segment import Segment, SegmentFactory

_INDEXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)


class PartitionFiles:
    """One partition's directory while it is loaded."""

    def __init__(self, directory: str, factory: SegmentFactory) -> None:
        """List the directory. Raises OSError."""
        self.directory = directory
        self.filesystem: FileSystem = factory.filesystem
        self._factory = factory
        self.names = self.filesystem.listdir(directory)
        self.swapped = frozenset(compaction_swap.swapped_bases(self.names))
        """Base offsets of segments that `finish_cleaning` swaps in, without a transaction index."""

    def deleted_before(self, offset: int) -> bool:
        """Whether a deletion of segments with a base offset below `offset` was interrupted.

        Their files are renamed already. Call it before `finish_cleaning`, which removes them.
        """
        for name in self.names:
            base = parse_offset_file(name, LOG_SUFFIX + DELETED_SUFFIX)
            if base is not None and base < offset:
                return True
        return False

    def first_base(self) -> int | None:
        """The first segment's base offset, by the name of its file or of a cleaned one that
        replaces it; None if there is no segment.
        """
        suffixes = (LOG_SUFFIX, LOG_SUFFIX + SWAP_SUFFIX)
        bases = (parse_offset_file(name, suffix) for name in self.names for suffix in suffixes)
        return min((base for base in bases if base is not None), default=None)

    def finish_cleaning(self) -> None:
        """Complete or undo an interrupted cleaning or deletion. Raises OSError, CorruptLogError."""
        steps = compaction_swap.recovery(self.names, self._end_of_swapped)
        for step in steps:
            match step:
                case compaction_swap.Unlink():
                    self.unlink(step.name)
                case compaction_swap.Rename():
                    self.filesystem.rename(self.path(step.old), self.path(step.new))
                case compaction_swap.SyncDirectory():
                    sync_directory(self.filesystem, self.directory)
                case compaction_swap.SyncFile():
                    raise AssertionError("a recovery writes no file")
                case _:
                    assert_never(step)
        if steps:
            self.names = self.filesystem.listdir(self.directory)

    def segments(self) -> list[Segment]:
        """List the segments by base offset; remove unfinished files, and indexes without `.log`."""
        bases: list[int] = []
        present = set(self.names)
        for name in self.names:
            if name.endswith(TEMPORARY_SUFFIX):
                self.unlink(name)
            elif (base := parse_offset_file(name, LOG_SUFFIX)) is not None:
                bases.append(base)
        for name in self.names:
            for suffix in _INDEXES:
                base = parse_offset_file(name, suffix)
                if base is not None and name.removesuffix(suffix) + LOG_SUFFIX not in present:
                    self.unlink(name)
        return [self._factory.existing(base) for base in sorted(bases)]

    def remove(self, segments: Sequence[Segment]) -> None:
        """Remove the files of segments that no longer belong to the log. Raises OSError."""
        for segment in segments:
            segment.close()
            for path in segment.paths():
                unlink_if_present(self.filesystem, path)

    def set_aside(self, segments: Sequence[Segment], hole: int) -> None:
        """Move segments' files into a directory beside this one, for an operator to examine.

        `hole` is the offset where the log now ends. The directory is named like that of a stray
        log and stays until somebody removes it. A second loss at the same offset uses the same
        directory. Raises OSError.
        """
        parent, name = os.path.split(self.directory)
        aside = os.path.join(parent, stray_directory(name, f"{hole:032x}"))
        assert aside.endswith(STRAY_DIRECTORY_SUFFIX)
        if os.path.basename(aside) not in self.filesystem.listdir(parent):
            self.filesystem.mkdir(aside)
        for segment in segments:
            segment.close()
            for path in segment.paths():
                if os.path.basename(path) in self.names:
                    self.filesystem.rename(path, os.path.join(aside, os.path.basename(path)))
        sync_directory(self.filesystem, aside)
        sync_directory(self.filesystem, parent)

    def path(self, name: str) -> str:
        """The path of a file in the directory."""
        return os.path.join(self.directory, name)

    def unlink(self, name: str) -> None:
        """Remove a file of the directory, if it is there. Raises OSError."""
        unlink_if_present(self.filesystem, self.path(name))

    def _end_of_swapped(self, base: int) -> int:
        """The offset after the last batch of `<base>.log.swap`. Raises CorruptLogError, OSError."""
        path = self.path(offset_file(base, LOG_SUFFIX) + SWAP_SUFFIX)
        fd = self.filesystem.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            end, size = base, self.filesystem.fstat(fd).st_size
            for _, fields in headers(self.filesystem.pread, fd, position=0, limit=size):
                end = fields[0] + fields[6] + 1
        finally:
            self.filesystem.close(fd)
        if end == base:
            raise CorruptLogError(f"{path} holds nothing that could replace a segment")
        return end
