"""The sparse index of a segment: `.index`, from offsets to positions (Kafka's `OffsetIndex`).

On disk an entry is 8 bytes, big endian: int32 relative offset, int32 position. The entry's offset
is the last offset of the batch that starts at the position. Read as one int64 an entry sorts by
offset and by position alike, which is how it is kept and searched here.

Kafka maps a preallocated file even while it grows. Here the entries of the last few MiB wait in
memory and are appended to the file in pages, so that a growing segment costs neither a map nor a
descriptor nor ten sparse MiB; the file's part is mapped when somebody looks something up in it.
After a crash the missing entries are rebuilt together with those that Kafka would not trust
either.
"""

import mmap
import os
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

from highwater.partition.storage.errors import CorruptIndexError
from highwater.partition.storage.filesystem import FileSystem, write_all
from highwater.partition.storage.segment.handles import HandleClock

ENTRY_BYTES: Final = 8
TAIL_ENTRIES_MAX: Final = 512
"""Entries held back before they are written: one page of the file, 2 MiB of log."""

_PACKED: Final = Struct(">q")
_POSITION_MASK: Final = 0xFFFF_FFFF


class OffsetIndex:
    """One segment's offset index. One thread owns it.

    Entries 0.._stored-1 are in the file, the rest in `_tail`. `verified` says whether the
    file's part was found consistent since it was opened; that is checked at the first mapping.
    """

    __slots__ = (
        "_filesystem",
        "_map",
        "_maps",
        "_stored",
        "_tail",
        "base_offset",
        "before_flush",
        "entered",
        "max_entries",
        "path",
        "pins",
        "referenced",
        "verified",
    )

    def __init__(
        self,
        path: str,
        base_offset: int,
        *,
        max_bytes: int,
        stored_bytes: int,
        filesystem: FileSystem,
        maps: HandleClock,
    ) -> None:
        """`stored_bytes` is the file's present length, 0 for a file that does not exist."""
        self.path = path
        self.base_offset = base_offset
        self.max_entries = max_bytes // ENTRY_BYTES
        self.verified = stored_bytes == 0
        self.before_flush: Callable[[], None] | None = None
        """Called before entries are written: whatever recovery finds beside them in the file must
        be there already (`recovery.resume_point`)."""
        self.pins = 0
        self.referenced = False
        self.entered = False
        self._stored = stored_bytes // ENTRY_BYTES
        self._tail = array("q")
        self._map: mmap.mmap | None = None
        self._maps = maps
        self._filesystem = filesystem

    def __len__(self) -> int:
        return self._stored + len(self._tail)

    def is_full(self) -> bool:
        """Whether another entry would exceed segment.index.bytes; the segment must then roll."""
        return self._stored + len(self._tail) >= self.max_entries

    @property
    def waiting(self) -> int:
        """Entries that are not in the file yet."""
        return len(self._tail)

    @property
    def first_waiting(self) -> int:
        """The position of the first of them; there must be one."""
        return self._tail[0] & _POSITION_MASK

    def append(self, last_offset: int, position: int) -> None:
        """Adds the batch that ends with `last_offset` and starts at `position`."""
        tail = self._tail
        tail.append((last_offset - self.base_offset) << 32 | position)
        if len(tail) >= TAIL_ENTRIES_MAX:
            self.flush()

    def floor(self, offset: int) -> int:
        """A position at or before the batch that holds `offset`; 0 if the index has none."""
        packed = self._search((offset - self.base_offset) << 32 | _POSITION_MASK)
        return packed & _POSITION_MASK

    def floor_position(self, position: int) -> int:
        """The start of the last indexed batch that starts at or before `position`, else 0."""
        tail = self._tail
        if tail and tail[0] & _POSITION_MASK <= position:
            found = bisect_right(tail, position, key=_position_of)
            return tail[found - 1] & _POSITION_MASK
        if not self._stored:
            return 0
        view = self._mapped()
        unpack = _PACKED.unpack_from
        found = bisect_right(
            range(self._stored),
            position,
            key=lambda i: unpack(view, i * ENTRY_BYTES)[0] & _POSITION_MASK,
        )
        if not found:
            return 0
        return int(unpack(view, (found - 1) * ENTRY_BYTES)[0]) & _POSITION_MASK

    def last_entry(self) -> tuple[int, int] | None:
        """(last offset, position) of the newest entry, read without a map."""
        if self._tail:
            packed = self._tail[-1]
        elif self._stored:
            packed = self._read_stored(self._stored - 1)
        else:
            return None
        return self.base_offset + (packed >> 32), packed & _POSITION_MASK

    def entries(self) -> Iterator[tuple[int, int]]:
        """All entries as (last offset, position); for truncation, tests and tools."""
        stored = array("q", self._mapped()[:] if self._stored else b"")
        stored.byteswap()
        for part in (stored[: self._stored], self._tail):
            for packed in part:
                yield self.base_offset + (packed >> 32), packed & _POSITION_MASK

    def truncate(self, offset: int) -> None:
        """Drops the entries whose batch ends at or after `offset`."""
        limit = (offset - self.base_offset) << 32
        tail = self._tail
        del tail[bisect_right(tail, limit - 1) :]
        if tail or not self._stored:
            return
        view = self._mapped()
        unpack = _PACKED.unpack_from
        keep = bisect_right(
            range(self._stored), limit - 1, key=lambda i: unpack(view, i * ENTRY_BYTES)[0]
        )
        if keep < self._stored:
            self._cut_file(keep)

    def reset(self) -> None:
        """Forgets everything, before the index is rebuilt from the segment."""
        del self._tail[:]
        if self._stored:
            self._cut_file(0)
        self.verified = True

    def flush(self) -> None:
        """Writes the entries that wait in memory; creates the file if there is none."""
        if self.before_flush is not None:
            self.before_flush()
        data = array("q", self._tail)
        data.byteswap()
        fd = self._filesystem.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            write_all(self._filesystem, fd, data.tobytes(), self._stored * ENTRY_BYTES)
        finally:
            self._filesystem.close(fd)
        self._stored += len(data)
        del self._tail[:]
        self.release()

    def is_open(self) -> bool:
        """Whether the file is mapped (`Evictable`)."""
        return self._map is not None

    def release(self) -> None:
        """Unmaps the file; the next look-up maps it again (`Evictable`)."""
        if self._map is not None:
            self._map.close()
            self._map = None

    def _search(self, key: int) -> int:
        """The largest entry <= key, packed; 0 if there is none."""
        tail = self._tail
        if tail and tail[0] <= key:
            return tail[bisect_right(tail, key) - 1]
        if not self._stored:
            return 0
        view = self._mapped()
        unpack = _PACKED.unpack_from
        found = bisect_right(
            range(self._stored), key, key=lambda i: unpack(view, i * ENTRY_BYTES)[0]
        )
        return int(unpack(view, (found - 1) * ENTRY_BYTES)[0]) if found else 0

    def _mapped(self) -> mmap.mmap:
        view = self._map
        if view is None:
            if not self.verified:
                self._verify()
            view = self._map = map_file(self._filesystem, self.path, self._stored * ENTRY_BYTES)
            self._maps.enter(self)
        self.referenced = True
        return view

    def _verify(self) -> None:
        """Entries must ascend in offset and in position, and no offset may precede the base.

        Read, not mapped: a bad sector is then an error and not a signal.
        """
        length = self._stored * ENTRY_BYTES
        entries = array("q", read_exactly(self._filesystem, self.path, length))
        entries.byteswap()
        offsets = [entry >> 32 for entry in entries]
        positions = [entry & _POSITION_MASK for entry in entries]
        if offsets[0] < 0 or offsets != sorted(set(offsets)) or positions != sorted(set(positions)):
            raise CorruptIndexError(f"{self.path}: entries do not ascend")
        self.verified = True

    def _read_stored(self, entry: int) -> int:
        fd = self._filesystem.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = self._filesystem.pread(fd, ENTRY_BYTES, entry * ENTRY_BYTES)
        finally:
            self._filesystem.close(fd)
        if len(data) < ENTRY_BYTES:
            raise CorruptIndexError(f"{self.path}: shorter than it was when it was opened")
        return int(_PACKED.unpack(data)[0])

    def _cut_file(self, entries: int) -> None:
        self.release()
        cut_file(self._filesystem, self.path, entries * ENTRY_BYTES)
        self._stored = entries


def _position_of(packed: int) -> int:
    return packed & _POSITION_MASK


def map_file(filesystem: FileSystem, path: str, length: int) -> mmap.mmap:
    """Maps the first `length` bytes of a file for reading; they must exist."""
    fd = filesystem.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if filesystem.fstat(fd).st_size < length:
            raise CorruptIndexError(f"{path}: shorter than it was when it was opened")
        return mmap.mmap(fd, length, prot=mmap.PROT_READ)
    finally:
        filesystem.close(fd)


def read_exactly(filesystem: FileSystem, path: str, length: int) -> bytes:
    """The first `length` bytes of an index file."""
    fd = filesystem.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = filesystem.pread(fd, length, 0)
    finally:
        filesystem.close(fd)
    if len(data) < length:
        raise CorruptIndexError(f"{path}: shorter than it was when it was opened")
    return data


def cut_file(filesystem: FileSystem, path: str, length: int) -> None:
    """Shortens a file to `length` bytes, and creates it if it does not exist."""
    fd = filesystem.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        filesystem.ftruncate(fd, length)
    finally:
        filesystem.close(fd)
