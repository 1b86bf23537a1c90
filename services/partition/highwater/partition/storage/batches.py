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
"""Far above any max.message.bytes; a length beyond it is damage that should not fill memory."""

_START: Final = Struct(">qiiBIhi")
"""The fields that a walk needs: up to the last offset delta."""
_WINDOW_BYTES: Final = 8192
"""Read at once: an index interval of small batches and the header after it."""

Pread = Callable[[int, int, int], bytes]


def find_batch(
    pread: Pread, fd: int, *, position: int, limit: int, offset: int
) -> tuple[int, int, int, int] | None:
    """The first batch from `position` on that ends at or after `offset`.

    Returns (position, base offset, next offset, bytes), or None if there is none before `limit`.
    Raises CorruptLogError if what stands at a batch boundary is no batch.
    """
    window = b""
    start = position
    while position + HEADER_BYTES <= limit:
        relative = position - start
        if relative + HEADER_BYTES > len(window):
            start, relative = position, 0
            window = pread(fd, min(_WINDOW_BYTES, limit - position), position)
        base_offset, size, next_offset = _batch_at(window, relative, position)
        if next_offset > offset:
            return position, base_offset, next_offset, size
        position += size
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
        _, size, next_offset = _batch_at(window, relative, position)
        if position + size > limit:
            break
        position += size
        following = next_offset
    return position, following


def headers(
    pread: Pread, fd: int, *, position: int, limit: int
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """(position, fields of `HEADER`) of every batch in [position, limit)."""
    window = b""
    start = position
    while position + HEADER_BYTES <= limit:
        relative = position - start
        if relative + HEADER_BYTES > len(window):
            start, relative = position, 0
            window = pread(fd, min(_WINDOW_BYTES, limit - position), position)
        _, size, _ = _batch_at(window, relative, position)
        yield position, HEADER.unpack_from(window, relative)
        position += size


def _batch_at(window: bytes, relative: int, position: int) -> tuple[int, int, int]:
    """(base offset, bytes, next offset) of the batch whose header stands at `relative`."""
    if relative + HEADER_BYTES > len(window):
        raise CorruptLogError(f"the file ends inside a batch header at position {position}")
    base_offset, length, _, magic, _, _, delta = _START.unpack_from(window, relative)
    size = length + LENGTH_OVERHEAD
    if magic != MAGIC or size < HEADER_BYTES or delta < 0 or base_offset < 0:
        raise CorruptLogError(f"no batch at position {position}: magic {magic}, length {length}")
    return base_offset, size, base_offset + delta + 1


def max_timestamp_at(pread: Pread, fd: int, position: int) -> int:
    """The largest timestamp of the batch at `position`."""
    data = pread(fd, HEADER_BYTES, position)
    _batch_at(data, 0, position)
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
    return _batch_at(data, 0, position)[0]


def size_at(pread: Pread, fd: int, position: int) -> tuple[int, int]:
    """(bytes, next offset) of the batch at `position`."""
    data = pread(fd, HEADER_BYTES, position)
    _, size, following = _batch_at(data, 0, position)
    return size, following
