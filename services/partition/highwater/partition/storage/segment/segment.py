"""One segment of a log: a `.log` file of record batches and its two indexes."""

import os
from dataclasses import dataclass
from typing import Final

from highwater.partition.storage.errors import CorruptIndexError
from highwater.partition.storage.fallocate import FALLOC_FL_KEEP_SIZE
from highwater.partition.storage.filesystem import FileSystem, unlink_if_present
from highwater.partition.storage.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    offset_file,
)
from highwater.partition.storage.segment.batches import find_batch, max_timestamp_at
from highwater.partition.storage.segment.handles import HandleClock
from highwater.partition.storage.segment.index import OffsetIndex
from highwater.partition.storage.segment.index_file import IndexFile
from highwater.partition.storage.segment.time_index import NO_TIMESTAMP, TimeIndex

CLOSED: Final = -1
TAIL_ENTRIES: Final = 32
TAIL_BYTES: Final = 1 << 20
"""Behind the last index entry on disk; `shorten_unindexed_tail` writes when there is more. Small
batches have an entry every 4 KiB: about 700 of them, a few milliseconds of recovery."""


class Segment:
    """One segment. One thread owns it; only `pins` of a live slice keeps `fd` open.

    `fd` is -1 while the file is closed, which it may be at any time that nobody pins it: use
    `fd if fd >= 0 else open()`. The file is opened for reading and writing.
    """

    __slots__ = (
        "_filesystem",
        "_handles",
        "base_offset",
        "bytes_since_index",
        "created_ms",
        "damaged_at",
        "deleted",
        "entered",
        "fd",
        "file",
        "first_timestamp",
        "index",
        "indexes_missing",
        "inode",
        "max_timestamp",
        "max_timestamp_offset",
        "path",
        "pins",
        "preallocated",
        "referenced",
        "size",
        "time_index",
    )

    def __init__(
        self,
        file: str,
        base_offset: int,
        *,
        size: int,
        inode: int,
        created_ms: int,
        index: OffsetIndex,
        time_index: TimeIndex,
        filesystem: FileSystem,
        handles: HandleClock,
    ) -> None:
        """Describes a file that exists; opens nothing."""
        self.file = file
        self.path = relative_to_log_dir(file)
        """The file's path relative to the log directory, as short-circuit readers want it."""
        self.base_offset = base_offset
        self.size = size
        self.inode = inode
        self.created_ms = created_ms
        """When the segment was created or, after a restart, last written; for segment.ms."""
        self.index = index
        self.time_index = time_index
        self.bytes_since_index = 0
        self.first_timestamp: int | None = None
        """Largest timestamp of the first batch; None until it is known (`load_first_timestamp`)."""
        self.max_timestamp: int | None = None
        """Largest timestamp of all; None until it is read from the time index."""
        self.max_timestamp_offset = base_offset
        self.damaged_at: int | None = None
        """Position from which on there are no batches to be found, if somebody has noticed."""
        self.fd = CLOSED
        self.pins = 0
        self.referenced = False
        self.entered = False
        self.deleted = False
        self.preallocated = False
        """Whether disk space was reserved behind the last batch."""
        self.indexes_missing = False
        """True if an index file was not there when the segment was found on disk."""
        self._filesystem = filesystem
        self._handles = handles

    def index_files(self) -> tuple[IndexFile, ...]:
        """The files beside the `.log`."""
        return self.index.file, self.time_index.file

    def paths(self) -> list[str]:
        """Of all its files, the `.log` first; an index that is empty may have no file."""
        return [self.file, *(file.path for file in self.index_files())]

    def open(self) -> int:
        """Opens the file and returns its descriptor. Raises OSError."""
        if self.fd < 0:
            self.fd = self._filesystem.open(self.file, os.O_RDWR | os.O_CLOEXEC)
            self._handles.enter(self)
        return self.fd

    def pin(self) -> None:
        """Keeps `fd` open, also when the segment is deleted, until `unpin`. Raises OSError."""
        self.open()
        self.pins += 1

    def unpin(self) -> None:
        """Ends one `pin`."""
        assert self.pins > 0
        self.pins -= 1
        if self.deleted and not self.pins:
            self.release()

    def is_open(self) -> bool:
        """Whether the file is open (`Evictable`)."""
        return self.fd >= 0

    def release(self) -> None:
        """Closes the file; whoever needs it next opens it again (`Evictable`)."""
        if self.fd >= 0:
            fd, self.fd = self.fd, CLOSED
            self._filesystem.close(fd)

    def largest_timestamp(self) -> int:
        """The largest record timestamp, -1 if the segment is empty.

        The first time it comes from the time index, compared with the batch that it names. Raises
        CorruptIndexError or CorruptLogError if they differ, and OSError.
        """
        if self.max_timestamp is None:
            timestamp, offset = self.time_index.last_entry()
            if self.size and self.timestamp_of_batch(offset) != timestamp:
                raise CorruptIndexError(f"{self.time_index.file.path}: the last entry is wrong")
            self.max_timestamp, self.max_timestamp_offset = timestamp, offset
        return self.max_timestamp

    def load_first_timestamp(self) -> int:
        """The largest timestamp of the first batch; the segment is not empty. Raises OSError."""
        if self.first_timestamp is None:
            self.first_timestamp = max_timestamp_at(self._filesystem.pread, self.open(), 0)
        return self.first_timestamp

    def timestamp_of_batch(self, offset: int) -> int:
        """The largest timestamp of the batch that holds `offset`."""
        pread, fd = self._filesystem.pread, self.open()
        found = find_batch(
            pread, fd, position=self.index.floor(offset), limit=self.size, offset=offset
        )
        if found is None:
            raise CorruptIndexError(f"{self.path} does not hold offset {offset}")
        return max_timestamp_at(pread, fd, found[0])

    @property
    def walkable(self) -> int:
        """Up to which position a walk over the batches may go."""
        return self.size if self.damaged_at is None else self.damaged_at

    def truncate_indexes(self, end: int) -> None:
        """Drops the index entries that lead to `end` or beyond. Raises CorruptIndexError, OSError."""
        self.index.truncate(end)
        self.time_index.truncate(end)

    def forget_timestamps(self) -> None:
        """After a truncation: what was known of the largest timestamp, or of damage, may be gone."""
        self.max_timestamp = None
        self.damaged_at = None
        if not self.size:
            self.first_timestamp = None
            self.max_timestamp = NO_TIMESTAMP
            self.max_timestamp_offset = self.base_offset

    def preallocate(self, nbytes: int) -> bool:
        """Reserves disk space behind the last batch; False if the file system cannot."""
        try:
            self._filesystem.fallocate(self.open(), FALLOC_FL_KEEP_SIZE, self.size, nbytes)
        except OSError:
            # Not supported here, or the disk is too full for it; the write itself will tell.
            return False
        self.preallocated = True
        return True

    def seal(self) -> None:
        """Completes the indexes on disk and gives back reserved space: the segment is closed or
        will not grow any more.
        """
        if self.preallocated:
            self._filesystem.ftruncate(self.open(), self.size)
            self.preallocated = False
        if self.max_timestamp is not None and self.max_timestamp > NO_TIMESTAMP:
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self.time_index.flush()
        self.index.flush()

    def shorten_unindexed_tail(self) -> None:
        """Writes the index entries that are not on disk yet, if there are many: a start after kill
        -9 checks what is behind the last one. Nothing is synced. Raises OSError.
        """
        index = self.index
        waiting = index.waiting
        if waiting and (waiting >= TAIL_ENTRIES or self.size - index.first_waiting >= TAIL_BYTES):
            index.flush()

    def close(self) -> None:
        """Releases the descriptor and the maps; a pinned descriptor stays until `unpin`."""
        self.deleted = True
        for file in self.index_files():
            file.release()
        if not self.pins:
            self.release()

    def moved(self, directory: str, suffix: str = "") -> None:
        """Takes note that the files were renamed to `<directory>/<name><suffix>`."""
        self.file = os.path.join(directory, os.path.basename(self.file) + suffix)
        self.path = relative_to_log_dir(self.file)
        for file in self.index_files():
            file.path = os.path.join(directory, os.path.basename(file.path) + suffix)

    def without_suffix(self, suffix: str) -> None:
        """Takes note that the files have lost the end of their names."""
        self.file = self.file.removesuffix(suffix)
        self.path = relative_to_log_dir(self.file)
        for file in self.index_files():
            file.path = file.path.removesuffix(suffix)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSpan:
    """The measures of a sealed segment, for those who plan what to do with it."""

    base_offset: int
    next_offset: int
    """Where the following segment begins."""
    size: int
    index_bytes: int
    max_timestamp: int
    """Milliseconds, -1 if it has none."""


def relative_to_log_dir(file: str) -> str:
    """`<partition directory>/<file>`: the log directory is the partition directory's parent."""
    directory, name = os.path.split(file)
    return f"{os.path.basename(directory)}/{name}"


class SegmentFactory:
    """Makes `Segment` objects of one partition directory."""

    __slots__ = ("directory", "files", "filesystem", "index_bytes", "maps")

    def __init__(
        self,
        directory: str,
        *,
        index_bytes: int,
        filesystem: FileSystem,
        files: HandleClock,
        maps: HandleClock,
    ) -> None:
        """`index_bytes` is segment.index.bytes."""
        self.directory = directory
        self.index_bytes = index_bytes
        self.filesystem = filesystem
        self.files = files
        self.maps = maps

    def create(self, base_offset: int, *, now_ms: int) -> Segment:
        """Creates an empty segment's `.log` and opens it. Raises OSError.

        A `.log` left over with this name is emptied: nothing at or above the log end offset counts.
        """
        file = os.path.join(self.directory, offset_file(base_offset, LOG_SUFFIX))
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        fd = self.filesystem.open(file, flags, 0o644)
        segment = self._segment(
            file, base_offset, size=0, inode=self.filesystem.fstat(fd).st_ino, created_ms=now_ms
        )
        for index in segment.index_files():
            # They come into being with their first page, or when the segment is sealed.
            unlink_if_present(self.filesystem, index.path)
        segment.forget_timestamps()
        segment.fd = fd
        self.files.enter(segment)
        return segment

    def existing(self, base_offset: int, suffix: str = "") -> Segment:
        """Describes a segment that is on disk. Raises OSError if the `.log` is not there.

        Missing indexes count as empty, which `recovery` takes as a reason to rebuild them.
        `suffix` comes behind the names of the three files.
        """
        file = os.path.join(self.directory, offset_file(base_offset, LOG_SUFFIX) + suffix)
        status = self.filesystem.stat(file)
        return self._segment(
            file,
            base_offset,
            size=status.st_size,
            inode=status.st_ino,
            created_ms=status.st_mtime_ns // 1_000_000,
            suffix=suffix,
        )

    def empty(self, base_offset: int, suffix: str, *, now_ms: int) -> Segment:
        """Describes a segment whose files are yet to be written. Raises OSError."""
        file = os.path.join(self.directory, offset_file(base_offset, LOG_SUFFIX) + suffix)
        return self._segment(file, base_offset, size=0, inode=0, created_ms=now_ms, suffix=suffix)

    def _segment(
        self,
        file: str,
        base_offset: int,
        *,
        size: int,
        inode: int,
        created_ms: int,
        suffix: str = "",
    ) -> Segment:
        stem = file.removesuffix(suffix).removesuffix(LOG_SUFFIX)
        index_file = stem + INDEX_SUFFIX + suffix
        time_index_file = stem + TIME_INDEX_SUFFIX + suffix
        index_bytes = self._size_of(index_file) if size else 0
        time_index_bytes = self._size_of(time_index_file) if size else 0
        segment = Segment(
            file,
            base_offset,
            size=size,
            inode=inode,
            created_ms=created_ms,
            index=OffsetIndex(
                index_file,
                base_offset,
                max_bytes=self.index_bytes,
                stored_bytes=max(index_bytes, 0),
                filesystem=self.filesystem,
                maps=self.maps,
            ),
            time_index=TimeIndex(
                time_index_file,
                base_offset,
                max_bytes=self.index_bytes,
                stored_bytes=max(time_index_bytes, 0),
                filesystem=self.filesystem,
                maps=self.maps,
            ),
            filesystem=self.filesystem,
            handles=self.files,
        )
        segment.indexes_missing = min(index_bytes, time_index_bytes) < 0
        segment.index.before_flush = segment.time_index.flush_waiting
        return segment

    def _size_of(self, file: str) -> int:
        """The file's length, -1 if there is no file."""
        try:
            return self.filesystem.stat(file).st_size
        except FileNotFoundError:
            return -1
