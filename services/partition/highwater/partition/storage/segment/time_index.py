"""The sparse time index of a segment: `.timeindex`, from timestamps to offsets (`TimeIndex`).

On disk an entry is 12 bytes, big endian: int64 timestamp, int32 relative offset. It says that no
record up to and including the offset has a later timestamp, and that the batch which ends with
the offset has exactly that one. As with the offset index, new entries wait in memory and are
written in pages.
"""

import mmap
import os
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from struct import Struct
from typing import Final

from highwater.partition.storage.errors import CorruptIndexError
from highwater.partition.storage.filesystem import FileSystem, write_all
from highwater.partition.storage.segment.handles import HandleClock
from highwater.partition.storage.segment.index import cut_file, map_file, read_exactly

ENTRY_BYTES: Final = 12
TAIL_ENTRIES_MAX: Final = 512
NO_TIMESTAMP: Final = -1

_ENTRY: Final = Struct(">qi")


class TimeIndex:
    """One segment's time index. One thread owns it. `last` mirrors the newest entry."""

    __slots__ = (
        "_filesystem",
        "_last_timestamp",
        "_map",
        "_maps",
        "_stored",
        "_tail_offsets",
        "_tail_timestamps",
        "base_offset",
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
        self.pins = 0
        self.referenced = False
        self.entered = False
        self._stored = stored_bytes // ENTRY_BYTES
        self._tail_timestamps = array("q")
        self._tail_offsets = array("q")
        self._map: mmap.mmap | None = None
        self._maps = maps
        self._filesystem = filesystem
        self._last_timestamp: int | None = None if self._stored else NO_TIMESTAMP

    def __len__(self) -> int:
        return self._stored + len(self._tail_timestamps)

    def is_full(self) -> bool:
        """Whether only the entry that closes the segment still fits."""
        return len(self) >= self.max_entries - 1

    def append(self, timestamp: int, offset: int) -> None:
        """Adds (largest timestamp so far, last offset of its batch) unless it says nothing new."""
        if self._last_timestamp is None:
            self._last_timestamp = self.last_entry()[0]
        if timestamp <= self._last_timestamp:
            return
        self._last_timestamp = timestamp
        self._tail_timestamps.append(timestamp)
        self._tail_offsets.append(offset - self.base_offset)
        if len(self._tail_timestamps) >= TAIL_ENTRIES_MAX:
            self.flush()

    def floor(self, timestamp: int) -> tuple[int, int]:
        """The last entry with a timestamp <= the given one; (-1, base offset) if there is none."""
        tail = self._tail_timestamps
        if tail and tail[0] <= timestamp:
            found = bisect_right(tail, timestamp) - 1
            return tail[found], self.base_offset + self._tail_offsets[found]
        if not self._stored:
            return NO_TIMESTAMP, self.base_offset
        view = self._mapped()
        unpack = _ENTRY.unpack_from
        found = bisect_right(
            range(self._stored), timestamp, key=lambda i: unpack(view, i * ENTRY_BYTES)[0]
        )
        if not found:
            return NO_TIMESTAMP, self.base_offset
        stamp, relative = unpack(view, (found - 1) * ENTRY_BYTES)
        return stamp, self.base_offset + relative

    def last_entry(self) -> tuple[int, int]:
        """The newest (timestamp, offset), read without a map; (-1, base offset) if none."""
        if self._tail_timestamps:
            return self._tail_timestamps[-1], self.base_offset + self._tail_offsets[-1]
        if not self._stored:
            return NO_TIMESTAMP, self.base_offset
        fd = self._filesystem.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = self._filesystem.pread(fd, ENTRY_BYTES, (self._stored - 1) * ENTRY_BYTES)
        finally:
            self._filesystem.close(fd)
        if len(data) < ENTRY_BYTES:
            raise CorruptIndexError(f"{self.path}: shorter than it was when it was opened")
        timestamp, relative = _ENTRY.unpack(data)
        if relative < 0 or timestamp < 0:
            raise CorruptIndexError(f"{self.path}: the last entry is ({timestamp}, {relative})")
        return timestamp, self.base_offset + relative

    def entries(self) -> Iterator[tuple[int, int]]:
        """All entries as (timestamp, offset); for tests and tools."""
        if self._stored:
            for timestamp, relative in _ENTRY.iter_unpack(self._mapped()[:]):
                yield timestamp, self.base_offset + relative
        for timestamp, relative in zip(self._tail_timestamps, self._tail_offsets, strict=True):
            yield timestamp, self.base_offset + relative

    def truncate(self, offset: int) -> None:
        """Drops the entries that point at or after `offset`."""
        relative = offset - self.base_offset
        keep = bisect_right(self._tail_offsets, relative - 1)
        del self._tail_offsets[keep:]
        del self._tail_timestamps[keep:]
        if not keep and self._stored:
            view = self._mapped()
            unpack = _ENTRY.unpack_from
            stored = bisect_right(
                range(self._stored), relative - 1, key=lambda i: unpack(view, i * ENTRY_BYTES)[1]
            )
            if stored < self._stored:
                self._cut_file(stored)
        self._last_timestamp = None if self._stored or keep else NO_TIMESTAMP

    def reset(self) -> None:
        """Forgets everything, before the index is rebuilt from the segment."""
        del self._tail_timestamps[:]
        del self._tail_offsets[:]
        if self._stored:
            self._cut_file(0)
        self._last_timestamp = NO_TIMESTAMP
        self.verified = True

    def flush_waiting(self) -> None:
        """As `flush`, if there is anything to write."""
        if self._tail_timestamps:
            self.flush()

    def flush(self) -> None:
        """Writes the entries that wait in memory; creates the file if there is none."""
        data = b"".join(map(_ENTRY.pack, self._tail_timestamps, self._tail_offsets))
        fd = self._filesystem.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            write_all(self._filesystem, fd, data, self._stored * ENTRY_BYTES)
        finally:
            self._filesystem.close(fd)
        self._stored += len(self._tail_timestamps)
        del self._tail_timestamps[:]
        del self._tail_offsets[:]
        self.release()

    def is_open(self) -> bool:
        """Whether the file is mapped (`Evictable`)."""
        return self._map is not None

    def release(self) -> None:
        """Unmaps the file; the next look-up maps it again (`Evictable`)."""
        if self._map is not None:
            self._map.close()
            self._map = None

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
        """Timestamps must ascend, offsets must not descend. Read, not mapped, as in `index`."""
        length = self._stored * ENTRY_BYTES
        entries = list(_ENTRY.iter_unpack(read_exactly(self._filesystem, self.path, length)))
        timestamps = [entry[0] for entry in entries]
        offsets = [entry[1] for entry in entries]
        if (
            timestamps[0] < 0
            or offsets[0] < 0
            or timestamps != sorted(set(timestamps))
            or offsets != sorted(offsets)
        ):
            raise CorruptIndexError(f"{self.path}: entries do not ascend")
        self.verified = True

    def _cut_file(self, entries: int) -> None:
        self.release()
        cut_file(self._filesystem, self.path, entries * ENTRY_BYTES)
        self._stored = entries
