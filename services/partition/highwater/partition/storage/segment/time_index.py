"""The sparse time index of a segment: `.timeindex`, from timestamps to offsets (`TimeIndex`).

On disk an entry is 12 bytes, big endian: int64 timestamp, int32 relative offset. No record up to
and including that offset has a later timestamp, and the batch that ends with that offset has
exactly this one. As in the offset index, new entries stay in memory and are written in pages.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from struct import Struct
from typing import Final

from highwater.partition.storage.errors import CorruptIndexError
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.segment.handles import HandleClock
from highwater.partition.storage.segment.index_file import TAIL_ENTRIES_MAX, IndexFile

ENTRY_BYTES: Final = 12
NO_TIMESTAMP: Final = -1

_ENTRY: Final = Struct(">qi")


class TimeIndex:
    """One segment's time index: entries in `file`, then those in memory. One thread owns it."""

    __slots__ = (
        "_last_timestamp",
        "_tail_offsets",
        "_tail_timestamps",
        "base_offset",
        "file",
        "max_entries",
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
        self.file = IndexFile(
            path,
            _ENTRY,
            ascend=_ascend,
            stored_bytes=stored_bytes,
            filesystem=filesystem,
            maps=maps,
        )
        self.base_offset = base_offset
        self.max_entries = max_bytes // ENTRY_BYTES
        self._tail_timestamps = array("q")
        self._tail_offsets = array("q")
        self._last_timestamp: int | None = None if self.file.count else NO_TIMESTAMP
        """The newest entry's timestamp; None until it is read from the file."""

    def __len__(self) -> int:
        return self.file.count + len(self._tail_timestamps)

    def is_full(self) -> bool:
        """Whether only the last entry, which seals the segment, still fits."""
        return self.file.count + len(self._tail_timestamps) >= self.max_entries - 1

    def append(self, timestamp: int, offset: int) -> None:
        """Add (largest timestamp so far, last offset of its batch) if the timestamp is larger."""
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
            number = bisect_right(tail, timestamp) - 1
            return tail[number], self.base_offset + self._tail_offsets[number]
        found = self.file.floor(timestamp)
        if found is None:
            return NO_TIMESTAMP, self.base_offset
        return found[0], self.base_offset + found[1]

    def last_entry(self) -> tuple[int, int]:
        """The newest (timestamp, offset), read without a map; (-1, base offset) if none."""
        if self._tail_timestamps:
            return self._tail_timestamps[-1], self.base_offset + self._tail_offsets[-1]
        if not self.file.count:
            return NO_TIMESTAMP, self.base_offset
        timestamp, relative = self.file.last()
        if relative < 0 or timestamp < 0:
            raise CorruptIndexError(
                f"{self.file.path}: the last entry is ({timestamp}, {relative})"
            )
        return timestamp, self.base_offset + relative

    def entries(self) -> Iterator[tuple[int, int]]:
        """All entries as (timestamp, offset); for tests and tools."""
        for timestamp, relative in self.file.entries():
            yield timestamp, self.base_offset + relative
        for timestamp, relative in zip(self._tail_timestamps, self._tail_offsets, strict=True):
            yield timestamp, self.base_offset + relative

    def truncate(self, offset: int) -> None:
        """Drop the entries that point at or after `offset`."""
        relative = offset - self.base_offset
        keep = bisect_right(self._tail_offsets, relative - 1)
        del self._tail_offsets[keep:]
        del self._tail_timestamps[keep:]
        if not keep:
            self.file.truncate(relative, field=1)
        self._last_timestamp = None if self.file.count or keep else NO_TIMESTAMP

    def reset(self) -> None:
        """Drop all entries, before the index is rebuilt from the segment."""
        del self._tail_timestamps[:]
        del self._tail_offsets[:]
        self.file.clear()
        self._last_timestamp = NO_TIMESTAMP

    def flush_waiting(self) -> None:
        """As `flush`, if there is anything to write."""
        if self._tail_timestamps:
            self.flush()

    def flush(self) -> None:
        """Write the entries that are only in memory; create the file if there is none."""
        self.file.append(b"".join(map(_ENTRY.pack, self._tail_timestamps, self._tail_offsets)))
        del self._tail_timestamps[:]
        del self._tail_offsets[:]


def _ascend(data: bytes) -> bool:
    """Timestamps must ascend, offsets must not descend."""
    entries = list(_ENTRY.iter_unpack(data))
    timestamps = [entry[0] for entry in entries]
    offsets = [entry[1] for entry in entries]
    return (
        timestamps[0] >= 0
        and offsets[0] >= 0
        and timestamps == sorted(set(timestamps))
        and offsets == sorted(offsets)
    )
