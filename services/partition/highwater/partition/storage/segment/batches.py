"""Walks over the record batches of a segment file by their headers.

Nothing here decodes records. Positions and sizes are bytes in the file, offsets are log offsets.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

from highwater.kafka.records.batch import BATCH_HEADER, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC
from highwater.partition.storage.errors import CorruptLogError

HEADER: Final = BATCH_HEADER
"""base offset, length, leader epoch, magic, crc, attributes, last offset delta, base timestamp,
max timestamp, producer id, producer epoch, base sequence, record count."""
HEADER_BYTES: Final = HEADER_SIZE
BATCH_BYTES_MAX: Final = 256 << 20
"""Far above any max.message.bytes; a larger length is damage and must not fill the memory."""

_START: Final = Struct(">qiiBIhi")
"""The fields that a walk needs: up to the last offset delta."""
ANYWHERE: Final = 1 << 63
"""Larger than every position and every offset."""
_LENGTH: Final = Struct(">i")
_LENGTH_AT: Final = 8
_WINDOW_BYTES: Final = 8192
"""Bytes of one read: an index interval of small batches and the header after it."""

Pread = Callable[[int, int, int], bytes]


def find_batch(
    pread: Pread, fd: int, *, position: int, limit: int, offset: int
) -> tuple[int, int, int, int] | None:
    """The first batch from `position` on that ends at or after `offset`.

    Returns (position, base offset, next offset, bytes), or None if there is none before `limit`,
    which is the end of the last batch. Raises CorruptLogError if there is no batch at a batch
    boundary, or one that does not fit.
    """
    window = b""
    start = position
    following = -1
    while position + HEADER_BYTES <= limit:
        relative = position - start
        if relative + HEADER_BYTES > len(window):
            start, relative = position, 0
            window = pread(fd, min(_WINDOW_BYTES, limit - position), position)
        base_offset, size, next_offset = batch_at(window, relative, position, limit)
        if base_offset < following:
            raise _not_rising(base_offset, following, position)
        if next_offset > offset:
            return position, base_offset, next_offset, size
        position += size
        following = next_offset
    _check_nothing_left(position, limit)
    return None


def last_boundary(pread: Pread, fd: int, *, position: int, limit: int) -> tuple[int, int]:
    """The end of the last whole batch in [position, limit), and the offset that follows it.

    Returns (position, -1) if the first batch does not fit.
    """
    window = b""
    start = position
    following = -1
    while position + HEADER_BYTES <= limit:
        relative = position - start
        if relative + HEADER_BYTES > len(window):
            start, relative = position, 0
            window = pread(fd, min(_WINDOW_BYTES, limit - position), position)
        _, size, next_offset = batch_at(window, relative, position)
        if position + size > limit:
            break
        position += size
        following = next_offset
    return position, following


def fits(data: bytearray, relative: int) -> bool:
    """Whether the batch that begins at `relative` also ends in `data`, by its length alone."""
    if relative + HEADER_BYTES > len(data):
        return False
    (length,) = _LENGTH.unpack_from(data, relative + _LENGTH_AT)
    return bool(relative + LENGTH_OVERHEAD + length <= len(data))


def last_boundary_in(data: bytearray, position: int) -> tuple[int, int]:
    """As `last_boundary`, for batches in memory, which are at `position` of their file.

    The end is one in `data`.
    """
    end = 0
    following = -1
    while end + HEADER_BYTES <= len(data):
        _, size, next_offset = batch_at(data, end, position + end)
        if end + size > len(data):
            break
        end += size
        following = next_offset
    return end, following


def headers(
    pread: Pread, fd: int, *, position: int, limit: int
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """(position, fields of `HEADER`) of every batch in [position, limit).

    `limit` is the end of the last batch. Raises CorruptLogError as `find_batch` does.
    """
    window = b""
    start = position
    while position + HEADER_BYTES <= limit:
        relative = position - start
        if relative + HEADER_BYTES > len(window):
            start, relative = position, 0
            window = pread(fd, min(_WINDOW_BYTES, limit - position), position)
        _, size, _ = batch_at(window, relative, position, limit)
        yield position, HEADER.unpack_from(window, relative)
        position += size
    _check_nothing_left(position, limit)


def only_headers(data: bytes | bytearray) -> bool:
    """Whether these batches are only headers: compaction has removed all their records."""
    length = (HEADER_BYTES - LENGTH_OVERHEAD).to_bytes(4)
    return all(data[at + 8 : at + 12] == length for at in range(0, len(data), HEADER_BYTES))


def check_end(
    pread: Pread,
    fd: int,
    *,
    position: int,
    nbytes: int,
    following: int,
    limit: int,
    end_offset: int,
    unread: int,
) -> None:
    """Raise CorruptLogError unless the batch at `position` ends where the next one begins, or where
    its segment ends.

    No checksum covers a batch's length, and the other header fields' checksum was not checked.
    `nbytes` and `following` come from the batch's header; the segment ends at position `limit` and
    offset `end_offset`. A batch that begins at offset `unread` is not read: it may be known to be
    damaged.
    """
    behind = position + nbytes
    if behind > limit or following > end_offset:
        raise CorruptLogError(
            f"the batch at position {position} ends at {behind} and offset {following}, "
            f"its segment at {limit} and {end_offset}"
        )
    if behind == limit or unread <= following < end_offset:
        return
    base_offset, _, _ = batch_at(pread(fd, HEADER_BYTES, behind), 0, behind, limit)
    if base_offset < following:
        raise _not_rising(base_offset, following, behind)


def _not_rising(base_offset: int, following: int, position: int) -> CorruptLogError:
    return CorruptLogError(
        f"offset {base_offset} at position {position} comes behind {following - 1}"
    )


def _check_nothing_left(position: int, limit: int) -> None:
    """Raise if fewer bytes than a header are left: some batch has a wrong length."""
    if position < limit:
        raise CorruptLogError(f"{limit - position} bytes at position {position} are no batch")


def batch_at(
    window: bytes | bytearray, relative: int, position: int, limit: int = ANYWHERE
) -> tuple[int, int, int]:
    """(base offset, bytes, next offset) of the batch whose header is at `relative`; it must end
    at or before `limit`. Raises CorruptLogError.
    """
    if relative + HEADER_BYTES > len(window):
        raise CorruptLogError(f"the file ends inside a batch header at position {position}")
    base_offset, length, _, magic, _, _, delta = _START.unpack_from(window, relative)
    size = length + LENGTH_OVERHEAD
    if magic != MAGIC or size < HEADER_BYTES or delta < 0 or base_offset < 0:
        raise CorruptLogError(f"no batch at position {position}: magic {magic}, length {length}")
    if size > limit - position:
        raise CorruptLogError(f"{size} bytes at position {position} go beyond {limit}")
    return base_offset, size, base_offset + delta + 1


def max_timestamp_at(pread: Pread, fd: int, position: int) -> int:
    """The largest timestamp of the batch at `position`."""
    data = pread(fd, HEADER_BYTES, position)
    batch_at(data, 0, position)
    return int(HEADER.unpack(data)[8])


def largest_timestamp(pread: Pread, fd: int, *, position: int, limit: int) -> tuple[int, int]:
    """(largest timestamp, last offset of the first batch that has it) in [position, limit)."""
    largest, offset = -1, -1
    for _, fields in headers(pread, fd, position=position, limit=limit):
        if fields[8] > largest or offset < 0:
            largest, offset = fields[8], fields[0] + fields[6]
    return largest, offset


def base_offset_at(pread: Pread, fd: int, position: int) -> int:
    """The base offset of the batch at `position`."""
    data = pread(fd, HEADER_BYTES, position)
    return batch_at(data, 0, position)[0]


def size_at(pread: Pread, fd: int, position: int, limit: int) -> tuple[int, int]:
    """(bytes, next offset) of the batch at `position`, which must end at or before `limit`."""
    data = pread(fd, HEADER_BYTES, position)
    _, size, following = batch_at(data, 0, position, limit)
    return size, following
