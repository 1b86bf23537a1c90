"""The file of a segment's index: entries of one size, added in pages and mapped for look-ups.

Kafka's `AbstractIndex` maps a preallocated file even while it grows. Here the newest entries stay
in the index's memory and are added a page at a time. So a growing segment needs no map, no
descriptor and no ten sparse MiB.
"""

import mmap
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

from highwater.partition.storage.errors import CorruptIndexError
from highwater.partition.storage.filesystem import FileSystem, write_all
from highwater.partition.storage.segment.handles import HandleClock

TAIL_ENTRIES_MAX: Final = 512
"""Entries that an index gathers before it writes them: one page of the offset index, which covers
2 MiB of log."""


class IndexFile:
    """The entries of one index that are in its file. One thread owns it (`Evictable`).

    The file is opened when needed. The order of entries is checked when the file is first mapped.
    All methods raise OSError; those that read raise CorruptIndexError if the file has become
    shorter, or its entries are not in order.
    """

    __slots__ = (
        "_ascend",
        "_entry",
        "_filesystem",
        "_map",
        "_maps",
        "_verified",
        "count",
        "entered",
        "path",
        "pins",
        "referenced",
    )

    def __init__(
        self,
        path: str,
        entry: Struct,
        *,
        ascend: Callable[[bytes], bool],
        stored_bytes: int,
        filesystem: FileSystem,
        maps: HandleClock,
    ) -> None:
        """`stored_bytes` is the file's present length; 0 if there is no file. `ascend` gets the
        bytes of all entries (at least one) and returns whether they are in order.
        """
        self.path = path
        self.count = stored_bytes // entry.size
        """Entries in the file."""
        self.pins = 0
        self.referenced = False
        self.entered = False
        self._entry = entry
        self._ascend = ascend
        self._verified = stored_bytes == 0
        self._map: mmap.mmap | None = None
        self._maps = maps
        self._filesystem = filesystem

    # -- look-ups: with a map -------------------------------------------------------------------

    def floor(self, limit: int, mask: int | None = None) -> tuple[int, ...] | None:
        """The last entry whose first field is at most `limit`; None if there is none. With `mask`
        only these bits of the field count; they must ascend, too.
        """
        count = self.count
        if not count:
            return None
        view = self._map
        if view is None:
            view = self._open()
        self.referenced = True
        unpack, size = self._entry.unpack_from, self._entry.size
        if mask is None:
            found = bisect_right(range(count), limit, key=lambda i: unpack(view, i * size)[0])
        else:
            found = bisect_right(
                range(count), limit, key=lambda i: unpack(view, i * size)[0] & mask
            )
        return unpack(view, (found - 1) * size) if found else None

    def entries(self) -> Iterator[tuple[int, ...]]:
        """All entries."""
        if not self.count:
            return iter(())
        view = self._map or self._open()
        return self._entry.iter_unpack(view[: self.count * self._entry.size])

    def first_from(self, limit: int, *, field: int) -> int:
        """The number of the first entry whose field is `limit` or more, `count` if there is none; the
        field must ascend.
        """
        if not self.count:
            return 0
        view = self._map or self._open()
        self.referenced = True
        unpack, size = self._entry.unpack_from, self._entry.size
        return bisect_left(range(self.count), limit, key=lambda i: unpack(view, i * size)[field])

    def between(self, first: int, stop: int) -> Iterator[tuple[int, ...]]:
        """The entries with the numbers [first, stop), as far as there are any."""
        stop = min(stop, self.count)
        if first >= stop:
            return iter(())
        view = self._map or self._open()
        self.referenced = True
        size = self._entry.size
        return self._entry.iter_unpack(view[first * size : stop * size])

    def packed(self) -> bytes:
        """The bytes of all entries."""
        if not self.count:
            return b""
        return (self._map or self._open())[: self.count * self._entry.size]

    # -- without a map --------------------------------------------------------------------------

    def last(self) -> tuple[int, ...]:
        """The newest entry; there must be one. Its order is not checked."""
        size = self._entry.size
        return self._entry.unpack(self._read(size, (self.count - 1) * size))

    def append(self, data: bytes) -> None:
        """Write entries behind the last one; create the file if there is none."""
        self.put(data)
        self.take(len(data))

    def put(self, data: bytes) -> None:
        """The part of `append` that waits for the disk, which any thread may do."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        fd = self._filesystem.open(self.path, flags, 0o644)
        try:
            write_all(self._filesystem, fd, data, self.count * self._entry.size)
        finally:
            self._filesystem.close(fd)

    def take(self, nbytes: int) -> None:
        """The other part of `append`, on the owner's thread: what was put counts from now on."""
        self.count += nbytes // self._entry.size
        self.release()

    def truncate(self, limit: int, *, field: int = 0) -> None:
        """Drop the entries whose field is `limit` or more; the field must ascend."""
        if not self.count:
            return
        view = self._map or self._open()
        unpack, size = self._entry.unpack_from, self._entry.size
        keep = bisect_left(range(self.count), limit, key=lambda i: unpack(view, i * size)[field])
        if keep < self.count:
            self._cut(keep)

    def clear(self) -> None:
        """Drop all entries, even unordered ones."""
        if self.count:
            self._cut(0)
        self._verified = True

    # -- the map --------------------------------------------------------------------------------

    def is_open(self) -> bool:
        """Whether the file is mapped (`Evictable`)."""
        return self._map is not None

    def release(self) -> None:
        """Unmap the file; the next look-up maps it again (`Evictable`)."""
        if self._map is not None:
            self._map.close()
            self._map = None

    def _open(self) -> mmap.mmap:
        length = self.count * self._entry.size
        if not self._verified:
            # Read, not mapped, so that a bad sector is an error and not a signal.
            if not self._ascend(self._read(length, 0)):
                raise CorruptIndexError(f"{self.path}: entries do not ascend")
            self._verified = True
        fd = self._filesystem.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if self._filesystem.fstat(fd).st_size < length:
                raise self._too_short()
            view = self._map = mmap.mmap(fd, length, prot=mmap.PROT_READ)
        finally:
            self._filesystem.close(fd)
        self._maps.enter(self)
        return view

    def _read(self, length: int, position: int) -> bytes:
        fd = self._filesystem.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = self._filesystem.pread(fd, length, position)
        finally:
            self._filesystem.close(fd)
        if len(data) < length:
            raise self._too_short()
        return data

    def _too_short(self) -> CorruptIndexError:
        return CorruptIndexError(f"{self.path}: shorter than it was when it was opened")

    def _cut(self, entries: int) -> None:
        self.release()
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        fd = self._filesystem.open(self.path, flags, 0o644)
        try:
            self._filesystem.ftruncate(fd, entries * self._entry.size)
        finally:
            self._filesystem.close(fd)
        self.count = entries
