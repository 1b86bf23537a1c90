"""One segment of a log: a `.log` file of record batches and its indexes."""

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
    TRANSACTION_INDEX_SUFFIX,
    offset_file,
)
from highwater.partition.storage.segment.batches import find_batch, max_timestamp_at
from highwater.partition.storage.segment.handles import HandleClock
from highwater.partition.storage.segment.index import OffsetIndex
from highwater.partition.storage.segment.index_file import IndexFile
from highwater.partition.storage.segment.time_index import NO_TIMESTAMP, TimeIndex
from highwater.partition.storage.segment.transaction_index import TransactionIndex

CLOSED: Final = -1
TAIL_ENTRIES: Final = 32
TAIL_BYTES: Final = 1 << 20
"""`shorten_unindexed_tail` writes if more than this lies behind the last index entry on disk. Small
batches have an entry every 4 KiB: about 700 of them, a few milliseconds of recovery."""


class Segment:
    """One segment. One thread owns it. Only a pin keeps `fd` open.

    `fd` is -1 while the file is closed, and without a pin it may be closed at any time: use
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
        "transactions",
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
        transactions: TransactionIndex,
        filesystem: FileSystem,
        handles: HandleClock,
    ) -> None:
        """Describe an existing file; nothing is opened."""
        self.file = file
        self.path = relative_to_log_dir(file)
        """The file's path relative to the log directory, for short-circuit readers."""
        self.base_offset = base_offset
        self.size = size
        self.inode = inode
        self.created_ms = created_ms
        """For segment.ms: when the segment was created or, after a restart, last written."""
        self.index = index
        self.time_index = time_index
        self.transactions = transactions
        """The aborted transactions that end in this segment."""
        self.bytes_since_index = 0
        self.first_timestamp: int | None = None
        """Largest timestamp of the first batch; None until read (`load_first_timestamp`)."""
        self.max_timestamp: int | None = None
        """Largest timestamp of the segment; None until it is read from the time index."""
        self.max_timestamp_offset = base_offset
        self.damaged_at: int | None = None
        """Position of known damage, behind which no batches can be found; None if there is none."""
        self.fd = CLOSED
        self.pins = 0
        self.referenced = False
        self.entered = False
        self.deleted = False
        self.preallocated = False
        """Whether disk space was reserved behind the last batch."""
        self.indexes_missing = False
        """Whether an index file was missing when the segment was found on disk."""
        self._filesystem = filesystem
        self._handles = handles

    def index_files(self) -> tuple[IndexFile, ...]:
        """The files beside the `.log` file."""
        return self.index.file, self.time_index.file, self.transactions.file

    def paths(self) -> list[str]:
        """The paths of all its files, `.log` first; an index without entries may have no file."""
        return [self.file, *(file.path for file in self.index_files())]

    def open(self) -> int:
        """Open the file if needed and return its descriptor. Raises OSError."""
        if self.fd < 0:
            self.fd = self._filesystem.open(self.file, os.O_RDWR | os.O_CLOEXEC)
            self._handles.enter(self)
        return self.fd

    def pin(self) -> None:
        """Keep `fd` open until `unpin`, even if the segment is deleted. Raises OSError."""
        self.open()
        self.pins += 1

    def unpin(self) -> None:
        """End one `pin`."""
        assert self.pins > 0
        self.pins -= 1
        if self.deleted and not self.pins:
            self.release()

    def is_open(self) -> bool:
        """Whether the file is open (`Evictable`)."""
        return self.fd >= 0

    def release(self) -> None:
        """Close the file; the next user opens it again (`Evictable`)."""
        if self.fd >= 0:
            fd, self.fd = self.fd, CLOSED
            self._filesystem.close(fd)

    def largest_timestamp(self) -> int:
        """The largest record timestamp, -1 if the segment is empty.

        It is first read from the time index and compared with the batch there. Raises
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
        """The position up to which the batches can be read in order."""
        return self.size if self.damaged_at is None else self.damaged_at

    def truncate_indexes(self, end: int) -> None:
        """Drop index entries of `end` and later offsets. Raises CorruptIndexError, OSError."""
        self.index.truncate(end)
        self.time_index.truncate(end)
        self.transactions.truncate(end)

    def forget_timestamps(self) -> None:
        """After a truncation: the largest timestamp and damage must be found anew."""
        self.max_timestamp = None
        self.damaged_at = None
        if not self.size:
            self.first_timestamp = None
            self.max_timestamp = NO_TIMESTAMP
            self.max_timestamp_offset = self.base_offset

    def preallocate(self, nbytes: int) -> bool:
        """Reserve disk space behind the last batch; False if the file system cannot."""
        try:
            self._filesystem.fallocate(self.open(), FALLOC_FL_KEEP_SIZE, self.size, nbytes)
        except OSError:
            # Not supported, or the disk is too full; then the write itself fails.
            return False
        self.preallocated = True
        return True

    def seal(self) -> None:
        """Complete the indexes on disk and free reserved space, because the segment is closed or
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
        """Write the index entries that are not on disk yet, if there are many: a start after kill
        -9 checks the batches behind the last entry. Nothing is synced. Raises OSError.
        """
        index = self.index
        waiting = index.waiting
        if waiting and (waiting >= TAIL_ENTRIES or self.size - index.first_waiting >= TAIL_BYTES):
            index.flush()

    def close(self) -> None:
        """Close the file and the maps; a pinned descriptor stays open until `unpin`."""
        self.deleted = True
        for file in self.index_files():
            file.release()
        self.transactions.release()
        if not self.pins:
            self.release()

    def moved(self, directory: str, suffix: str = "") -> None:
        """Note that the files were renamed to `<directory>/<name><suffix>`."""
        self.file = os.path.join(directory, os.path.basename(self.file) + suffix)
        self.path = relative_to_log_dir(self.file)
        for file in self.index_files():
            file.path = os.path.join(directory, os.path.basename(file.path) + suffix)

    def without_suffix(self, suffix: str) -> None:
        """Note that the files were renamed to names without `suffix`."""
        self.file = self.file.removesuffix(suffix)
        self.path = relative_to_log_dir(self.file)
        for file in self.index_files():
            file.path = file.path.removesuffix(suffix)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSpan:
    """The size of a sealed segment and its offsets, for plans of a cleaning."""

    base_offset: int
    next_offset: int
    """Where the next segment begins."""
    size: int
    index_bytes: int
    max_timestamp: int
    """Milliseconds; -1 if there is none."""


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
        """Create an empty segment's `.log` file and open it. Raises OSError.

        An old file of this name is emptied: no record at or above the log end offset is valid.
        """
        file = os.path.join(self.directory, offset_file(base_offset, LOG_SUFFIX))
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        fd = self.filesystem.open(file, flags, 0o644)
        segment = self._segment(
            file, base_offset, size=0, inode=self.filesystem.fstat(fd).st_ino, created_ms=now_ms
        )
        for index in segment.index_files():
            # The index files are made with their first page, or when the segment is sealed.
            unlink_if_present(self.filesystem, index.path)
        segment.forget_timestamps()
        segment.fd = fd
        self.files.enter(segment)
        return segment

    def existing(self, base_offset: int, suffix: str = "") -> Segment:
        """Describe a segment that is on disk. Raises OSError if it has no `.log` file.

        Missing indexes count as empty; `recovery` then rebuilds them. The names of all its files
        end with `suffix`.
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
        """Describe a segment whose files are not written yet. Raises OSError."""
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
        transaction_file = stem + TRANSACTION_INDEX_SUFFIX + suffix
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
            transactions=TransactionIndex(
                transaction_file,
                stored_bytes=max(self._size_of(transaction_file), 0) if size else 0,
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
