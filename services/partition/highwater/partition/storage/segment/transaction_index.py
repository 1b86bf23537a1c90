"""The transaction index of a segment: `.txnindex`, the aborted transactions whose marker it has.

Kafka's format (`AbortedTxn.java`, `TransactionIndex.java`). An entry is 34 bytes, big endian: int16
version 0, int64 producer id, int64 first offset, int64 last offset (the marker's), int64 last stable
offset. Entries ascend by last offset. Without entries there is no file.

An entry is written before its marker, so that the index never lacks one that the log has; a start
drops entries behind the log's end.
"""

import contextlib
from collections.abc import Iterator
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


class TransactionIndex:
    """One segment's index. One thread owns it. All methods raise OSError; those that read raise
    CorruptIndexError if the file is damaged.
    """

    __slots__ = ("file",)

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

    def __len__(self) -> int:
        return self.file.count

    def append(self, aborted: AbortedTransaction) -> None:
        """Write the entry of a transaction that is aborted behind all earlier ones."""
        self.file.append(pack(aborted))

    def put(self, aborted: AbortedTransaction) -> None:
        """Write an entry on any thread; it counts once the owner's thread calls `take`."""
        self.file.put(pack(aborted))

    def take(self) -> None:
        """The entry that was put is written."""
        self.file.take(ENTRY_BYTES)

    def truncate(self, end: int) -> None:
        """Drop the entries of markers at or behind `end`.

        A damaged index stays as it is: whoever reads it finds that, and rebuilds it.
        """
        with contextlib.suppress(CorruptIndexError):
            self.file.truncate(end, field=_LAST_OFFSET)

    def reset(self) -> None:
        """Drop all entries, also those of a damaged file."""
        self.file.clear()

    def entries(self, first: int = 0) -> Iterator[AbortedTransaction]:
        """All transactions with markers at or behind `first`."""
        for entry in self.file.from_value(first, field=_LAST_OFFSET):
            yield AbortedTransaction(*entry[1:])

    def packed(self) -> bytes:
        """All entries' bytes."""
        return self.file.packed()

    def collect(self, first: int, end: int, found: list[AbortedTransaction]) -> bool:
        """Add the transactions that overlap the offsets [first, end) to `found`.

        True if no later segment's index has another one.
        """
        for entry in self.file.from_value(first, field=_LAST_OFFSET):
            _, _, first_offset, _, last_stable_offset = entry
            if first_offset < end:
                found.append(AbortedTransaction._make(entry[1:]))
            if last_stable_offset >= end:
                return True
        return False


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
