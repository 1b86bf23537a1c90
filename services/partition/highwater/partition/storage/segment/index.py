"""The sparse index of a segment: `.index`, from offsets to positions (Kafka's `OffsetIndex`).

On disk an entry is 8 bytes, big endian: int32 relative offset, int32 position. The entry's offset
is the last offset of the batch that starts at the position. Entries are kept and searched as
int64, which sorts by offset and by position alike.

The newest entries stay in memory for a while (`index_file` says why). After a crash recovery
rebuilds the missing ones, together with those that Kafka would rebuild, too.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.segment.handles import HandleClock
from highwater.partition.storage.segment.index_file import TAIL_ENTRIES_MAX, IndexFile

ENTRY_BYTES: Final = 8

_PACKED: Final = Struct(">q")
_POSITION_MASK: Final = 0xFFFF_FFFF


class OffsetIndex:
    """One segment's offset index: entries in `file`, then those in memory. One thread owns it."""

    __slots__ = ("_tail", "base_offset", "before_flush", "file", "max_entries")

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
            _PACKED,
            ascend=_ascend,
            stored_bytes=stored_bytes,
            filesystem=filesystem,
            maps=maps,
        )
        self.base_offset = base_offset
        self.max_entries = max_bytes // ENTRY_BYTES
        self.before_flush: Callable[[], None] | None = None
        """Called before entries are written: other files that recovery relies on together with
        them (`recovery.resume_point`) must be written first."""
        self._tail = array("q")

    def __len__(self) -> int:
        return self.file.count + len(self._tail)

    def is_full(self) -> bool:
        """Whether another entry would exceed segment.index.bytes; the segment must then roll."""
        return self.file.count + len(self._tail) >= self.max_entries

    @property
    def waiting(self) -> int:
        """Number of entries that are not in the file yet."""
        return len(self._tail)

    @property
    def first_waiting(self) -> int:
        """The position of the first entry that is not in the file yet; there must be one."""
        return self._tail[0] & _POSITION_MASK

    def append(self, last_offset: int, position: int) -> None:
        """Add an entry for the batch that ends with `last_offset` and starts at `position`."""
        tail = self._tail
        tail.append((last_offset - self.base_offset) << 32 | position)
        if len(tail) >= TAIL_ENTRIES_MAX:
            self.flush()

    def floor(self, offset: int) -> int:
        """A position at or before the batch that holds `offset`; 0 if the index has none."""
        key = (offset - self.base_offset) << 32 | _POSITION_MASK
        tail = self._tail
        if tail and tail[0] <= key:
            return tail[bisect_right(tail, key) - 1] & _POSITION_MASK
        found = self.file.floor(key)
        return 0 if found is None else found[0] & _POSITION_MASK

    def floor_position(self, position: int) -> int:
        """The start of the last indexed batch that starts at or before `position`, else 0."""
        tail = self._tail
        if tail and tail[0] & _POSITION_MASK <= position:
            number = bisect_right(tail, position, key=_position_of)
            return tail[number - 1] & _POSITION_MASK
        found = self.file.floor(position, _POSITION_MASK)
        return 0 if found is None else found[0] & _POSITION_MASK

    def last_entry(self) -> tuple[int, int] | None:
        """(last offset, position) of the newest entry, read without a map."""
        if self._tail:
            packed = self._tail[-1]
        elif self.file.count:
            (packed,) = self.file.last()
        else:
            return None
        return self.base_offset + (packed >> 32), packed & _POSITION_MASK

    def entries(self) -> Iterator[tuple[int, int]]:
        """All entries as (last offset, position); for tests and tools."""
        for (packed,) in self.file.entries():
            yield self.base_offset + (packed >> 32), packed & _POSITION_MASK
        for packed in self._tail:
            yield self.base_offset + (packed >> 32), packed & _POSITION_MASK

    def truncate(self, offset: int) -> None:
        """Drop the entries whose batch ends at or after `offset`."""
        limit = (offset - self.base_offset) << 32
        tail = self._tail
        del tail[bisect_right(tail, limit - 1) :]
        if not tail:
            self.file.truncate(limit)

    def reset(self) -> None:
        """Drop all entries, before the index is rebuilt from the segment."""
        del self._tail[:]
        self.file.clear()

    def flush(self) -> None:
        """Write the entries that are only in memory; create the file if there is none."""
        if self.before_flush is not None:
            self.before_flush()
        data = array("q", self._tail)
        data.byteswap()
        self.file.append(data.tobytes())
        del self._tail[:]


def _position_of(packed: int) -> int:
    return packed & _POSITION_MASK


def _ascend(data: bytes) -> bool:
    """Entries must ascend in offset and in position, and no offset may precede the base."""
    entries = array("q", data)
    entries.byteswap()
    offsets = [entry >> 32 for entry in entries]
    positions = [entry & _POSITION_MASK for entry in entries]
    return (
        offsets[0] >= 0 and offsets == sorted(set(offsets)) and positions == sorted(set(positions))
    )
