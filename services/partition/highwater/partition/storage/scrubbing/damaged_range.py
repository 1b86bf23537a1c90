"""Finds the damaged bytes of a closed segment and checks batches that may replace them.

No checksum covers a batch's offset, epoch and length. So a damaged range lies between intact
neighbours, and its replacement must fill it: batches with valid checksums, whose offsets and epochs
continue those before, and which end at the byte and the offset where the next intact batch begins.
Runs on any thread; `DamagedRange` and `RangeCheck` do not touch files.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from highwater.kafka.records.batch import LENGTH_OVERHEAD, MAGIC
from highwater.partition.core.leader_epochs import NO_EPOCH
from highwater.partition.storage.errors import CorruptLogError
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.recovery.recovery import CRC_COVERS_FROM, checksum_holds
from highwater.partition.storage.segment.batches import HEADER, HEADER_BYTES, headers

ANY_LENGTH: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedRange:
    """Bytes [begin, end) of a segment, which held the records [offset, end_offset)."""

    begin: int
    end: int
    offset: int
    end_offset: int
    gaps: bool
    """Whether offsets may be missing because of compaction."""
    tail: bool
    """Whether the range ends at the segment's end."""
    cut: bool = False
    """The segment may have lost its last bytes, so only the offsets show what is missing."""

    @property
    def nbytes(self) -> int:
        """How many bytes must come; `ANY_LENGTH` if only the offsets are known."""
        return ANY_LENGTH if self.cut else self.end - self.begin


def find_range(
    filesystem: FileSystem,
    fd: int,
    *,
    size: int,
    base_offset: int,
    next_base_offset: int,
    first: int,
    end: int,
    gaps: bool,
) -> DamagedRange:
    """The range of whole batches that hold the records [first, end) of a closed segment.

    The range begins after the last batch before them that is intact by its headers, and ends where
    the next intact one begins: the one after the damaged batch, or else the next segment. Raises
    OSError.
    """
    begin, offset = _sound_before(filesystem, fd, size, base_offset, first, gaps=gaps)
    found = _sound_behind(filesystem, fd, begin, size, max(end, offset + 1), next_base_offset)
    stop, end_offset = (size, next_base_offset) if found is None else found
    return DamagedRange(
        begin=begin,
        end=stop,
        offset=offset,
        end_offset=end_offset,
        gaps=gaps,
        tail=stop == size,
        cut=found is None and not gaps,
    )


def to_segment_end(found: DamagedRange, size: int, next_base_offset: int) -> DamagedRange:
    """The same range up to the segment's end, because the batch after it was damaged as well."""
    return DamagedRange(
        begin=found.begin,
        end=size,
        offset=found.offset,
        end_offset=next_base_offset,
        gaps=found.gaps,
        tail=True,
    )


def _sound_before(
    filesystem: FileSystem, fd: int, size: int, base_offset: int, first: int, *, gaps: bool
) -> tuple[int, int]:
    """(position, offset) after the batches that end before `first`."""
    position, following = 0, base_offset
    try:
        for position, fields in headers(filesystem.pread, fd, position=0, limit=size):
            after = fields[0] + fields[6] + 1
            misplaced = fields[0] < following or (fields[0] > following and not gaps)
            if misplaced or after > first:
                return position, following
            following = after
            position += fields[1] + LENGTH_OVERHEAD  # noqa: PLW2901 - its end, if it is the last.
    except CorruptLogError:
        pass  # There is no batch at `position`, so the range begins there.
    return position, following


def _sound_behind(
    filesystem: FileSystem, fd: int, begin: int, size: int, end: int, next_base_offset: int
) -> tuple[int, int] | None:
    """(position, offset) of the first intact batch at or after offset `end`; None if the batch
    lengths from `begin` on do not lead to one.
    """
    if end >= next_base_offset:
        return None
    try:
        for position, fields in headers(filesystem.pread, fd, position=begin, limit=size):
            if fields[0] >= end and position > begin:
                sound = fields[0] < next_base_offset and checksum_holds(
                    filesystem, fd, position, fields
                )
                return (position, fields[0]) if sound else None
    except CorruptLogError:
        return None
    return None


class RangeCheck:
    """Checks batches, as they come, against the range that they are to fill."""

    __slots__ = ("_epoch", "_epoch_of", "_range", "nbytes", "offset")

    def __init__(self, wanted: DamagedRange, epoch_of: Callable[[int], int], before: int) -> None:
        """`epoch_of` tells an offset's leader epoch as the log knows it, else `NO_EPOCH`; `before`
        is the epoch before the range.
        """
        self._range = wanted
        self._epoch_of = epoch_of
        self._epoch = before
        self.offset = wanted.offset
        """Offset of the next record."""
        self.nbytes = 0
        """Checked bytes so far."""

    def take(self, data: bytes) -> str:
        """Checks whole batches; returns what is wrong with them, or an empty text."""
        view = memoryview(data)
        at = 0
        while at < len(view):
            if len(view) - at < HEADER_BYTES:
                return "it ends inside a header"
            fields = HEADER.unpack_from(view, at)
            nbytes = fields[1] + LENGTH_OVERHEAD
            if fields[3] != MAGIC or fields[6] < 0 or not HEADER_BYTES <= nbytes <= len(view) - at:
                return f"there is no batch at offset {self.offset}"
            wrong = self._wrong(fields)
            if wrong:
                return wrong
            if crc32c(view[at + CRC_COVERS_FROM : at + nbytes]) != fields[4]:
                return f"the CRC of the batch at {fields[0]} does not match"
            at += nbytes
            self.nbytes += nbytes
            self.offset = fields[0] + fields[6] + 1
            self._epoch = fields[2]
            if self._range.nbytes != ANY_LENGTH and self.nbytes > self._range.nbytes:
                return f"more than {self._range.nbytes} bytes"
        return ""

    def _wrong(self, fields: tuple[int, ...]) -> str:
        base, last, epoch = fields[0], fields[0] + fields[6], fields[2]
        if base < self.offset or (base > self.offset and not self._range.gaps):
            return f"offset {base} follows {self.offset - 1}"
        if last >= self._range.end_offset:
            return f"offset {last} is behind the range, which ends at {self._range.end_offset}"
        known = self._epoch_of(base)
        if epoch < self._epoch or known not in (epoch, NO_EPOCH):
            return f"leader epoch {epoch} at offset {base}, where this log has {known}"
        return ""

    @property
    def filled(self) -> bool:
        """Whether the range is complete."""
        wanted = self._range
        if wanted.nbytes != ANY_LENGTH:
            return self.nbytes == wanted.nbytes and (
                wanted.gaps or self.offset == wanted.end_offset
            )
        return self.offset == wanted.end_offset
