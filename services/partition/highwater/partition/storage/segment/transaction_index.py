"""The transaction index of a segment: `.txnindex`, the aborted transactions whose marker it has.

Kafka's format (`AbortedTxn.java`, `TransactionIndex.java`). An entry is 34 bytes, big endian: int16
version 0, int64 producer id, int64 first offset, int64 last offset (the marker's), int64 last stable
offset. Entries ascend by last offset. Without entries there is no file.

An entry is written before its marker, so that the index never lacks one that the log has; a start
drops entries behind the log's end.

Each fetch of committed records searches it. So an index that is read and not large is kept in memory,
field by field, and grows there with the file.
"""

import contextlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

from highwater.partition.core.transactions import AbortedTransaction
from highwater.partition.storage.errors import CorruptIndexError
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.segment.handles import HandleClock
from highwater.partition.storage.segment.index_file import IndexFile

VERSION: Final = 0
_ENTRY: Final = Struct(">hqqqq")
ENTRY_BYTES: Final = _ENTRY.size
_LAST_OFFSET: Final = 3

KEPT_ENTRIES_MAX: Final = 512
"""A larger index stays in its file: what is kept are 16 KiB of each one that is read, as many as may be
mapped (`HandleClock`), and the loop waits while one is loaded."""
CHUNK_ENTRIES: Final = 64
"""Entries of a larger index that are read at once: few transactions overlap one fetch."""


class _Fields:
    """Entries, field by field: a search is one call then."""

    __slots__ = ("first_offsets", "last_offsets", "producer_ids", "stable_offsets")

    def __init__(self, entries: Iterable[tuple[int, ...]]) -> None:
        """`entries` are those of the file, with their versions."""
        self.producer_ids = array("q")
        self.first_offsets = array("q")
        self.last_offsets = array("q")
        self.stable_offsets = array("q")
        for entry in entries:
            self.add(*entry[1:])

    def add(self, producer_id: int, first: int, last: int, stable: int) -> None:
        """Another entry, the last one."""
        self.producer_ids.append(producer_id)
        self.first_offsets.append(first)
        self.last_offsets.append(last)
        self.stable_offsets.append(stable)


class TransactionIndex:
    """One segment's index. One thread owns it, except for `put`. All methods raise OSError; those that
    read raise CorruptIndexError if the file is damaged.

    What is kept in memory is given up as a map is (`Evictable`).
    """

    __slots__ = ("_kept", "_maps", "entered", "file", "pins", "referenced")

    def __init__(
        self, path: str, *, stored_bytes: int, filesystem: FileSystem, maps: HandleClock
    ) -> None:
        """`stored_bytes` is the file's present length, 0 for a file that does not exist."""
        self.file = IndexFile(
            path,
            _ENTRY,
            ascend=_sound,
            stored_bytes=stored_bytes,
            filesystem=filesystem,
            maps=maps,
        )
        self.pins = 0
        self.referenced = False
        self.entered = False
        self._maps = maps
        self._kept: _Fields | None = None

    def __len__(self) -> int:
        return self.file.count

    def append(self, aborted: AbortedTransaction) -> None:
        """Write the entry of a transaction that is aborted behind all earlier ones."""
        self.file.append(pack(aborted))
        if self._kept is not None:
            self._kept.add(*aborted)
            if self.file.count > KEPT_ENTRIES_MAX:
                self.release()

    def put(self, aborted: AbortedTransaction) -> None:
        """Write an entry on any thread; it counts once the owner's thread calls `take`."""
        self.file.put(pack(aborted))

    def take(self) -> None:
        """The entry that was put is written."""
        self.file.take(ENTRY_BYTES)
        self.release()

    def truncate(self, end: int) -> None:
        """Drop the entries of markers at or behind `end`.

        A damaged index stays as it is: whoever reads it finds that, and rebuilds it.
        """
        self.release()
        with contextlib.suppress(CorruptIndexError):
            self.file.truncate(end, field=_LAST_OFFSET)

    def reset(self) -> None:
        """Drop all entries, also those of a damaged file."""
        self.release()
        self.file.clear()

    def entries(self, first: int = 0) -> Iterator[AbortedTransaction]:
        """All transactions with markers at or behind `first`."""
        at = self.file.first_from(first, field=_LAST_OFFSET)
        for entry in self.file.between(at, self.file.count):
            yield AbortedTransaction(*entry[1:])

    def packed(self) -> bytes:
        """All entries' bytes."""
        return self.file.packed()

    def collect(self, first: int, end: int, found: list[tuple[int, int]]) -> bool:
        """Add the transactions that overlap the offsets [first, end) to `found`, each as a consumer gets
        it: (producer id, first offset).

        True if no later segment's index has another one. Raises before it adds any.
        """
        kept = self._kept
        if kept is None:
            if self.file.count > KEPT_ENTRIES_MAX:
                return self._collect_from_file(first, end, found)
            kept = self._keep()
        self.referenced = True
        first_offsets, stable_offsets = kept.first_offsets, kept.stable_offsets
        for at in range(bisect_left(kept.last_offsets, first), len(stable_offsets)):
            first_offset = first_offsets[at]
            if first_offset < end:
                found.append((kept.producer_ids[at], first_offset))
            if stable_offsets[at] >= end:
                return True
        return False

    def _collect_from_file(self, first: int, end: int, found: list[tuple[int, int]]) -> bool:
        at = self.file.first_from(first, field=_LAST_OFFSET)
        while at < self.file.count:
            for entry in self.file.between(at, at + CHUNK_ENTRIES):
                _, producer_id, first_offset, _, stable_offset = entry
                if first_offset < end:
                    found.append((producer_id, first_offset))
                if stable_offset >= end:
                    return True
            at += CHUNK_ENTRIES
        return False

    def _keep(self) -> _Fields:
        kept = _Fields(self.file.entries())
        self.file.release()
        self._kept = kept
        self._maps.enter(self)
        return kept

    def is_open(self) -> bool:
        """Whether the entries are in memory (`Evictable`)."""
        return self._kept is not None

    def release(self) -> None:
        """Forget what is in memory; the next search reads the file again (`Evictable`)."""
        self._kept = None


def pack(aborted: AbortedTransaction) -> bytes:
    """An entry's bytes."""
    return _ENTRY.pack(
        VERSION,
        aborted.producer_id,
        aborted.first_offset,
        aborted.last_offset,
        aborted.last_stable_offset,
    )


def unpack_all(data: bytes) -> list[AbortedTransaction]:
    """The whole entries at the beginning of `data`."""
    whole = len(data) - len(data) % ENTRY_BYTES
    return [AbortedTransaction(*entry[1:]) for entry in _ENTRY.iter_unpack(data[:whole])]


def _sound(data: bytes) -> bool:
    """Whether these are entries in their order (`TransactionIndex.sanityCheck`)."""
    last = -1
    for version, producer_id, first, marker, _ in _ENTRY.iter_unpack(data):
        if version != VERSION or producer_id < 0 or not 0 <= first < marker or marker <= last:
            return False
        last = marker
    return True
