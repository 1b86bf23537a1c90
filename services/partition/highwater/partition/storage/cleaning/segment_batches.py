"""Reads all batches of a segment file in order, checked, in bounded memory."""

import os
from collections.abc import Iterator
from typing import Final

from highwater.kafka.records.batch import LENGTH_OVERHEAD, MAGIC, RecordBatchView
from highwater.partition.storage.errors import CorruptLogError
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.segment.batches import BATCH_BYTES_MAX, HEADER, HEADER_BYTES

WINDOW_BYTES: Final = 1 << 20


def batches_of(
    filesystem: FileSystem, path: str, size: int, *, from_offset: int = 0
) -> Iterator[RecordBatchView]:
    """Yield batches that end at or after `from_offset`; each view keeps its read buffer alive.

    Raises CorruptLogError if a batch is not whole or its checksum does not match (damage must not
    get a new checksum), OSError.
    """
    fd = filesystem.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        position = start = 0
        window = b""
        while position < size:
            relative = position - start
            if relative + HEADER_BYTES > len(window):
                window = filesystem.pread(fd, min(WINDOW_BYTES, size - position), position)
                start, relative = position, 0
            nbytes, following = _extent(window, relative, size - position, path, position)
            if following > from_offset:
                if relative + nbytes > len(window):
                    wanted = min(max(nbytes, WINDOW_BYTES), size - position)
                    window = filesystem.pread(fd, wanted, position)
                    start, relative = position, 0
                yield _checked(window, relative, nbytes, path, position)
            position += nbytes
    finally:
        filesystem.close(fd)


def _extent(window: bytes, at: int, left: int, path: str, position: int) -> tuple[int, int]:
    """(bytes, next offset) of the batch whose header is at `at`."""
    if len(window) - at < HEADER_BYTES:
        raise CorruptLogError(f"{path} ends inside a batch header at position {position}")
    fields = HEADER.unpack_from(window, at)
    nbytes = fields[1] + LENGTH_OVERHEAD
    whole = HEADER_BYTES <= nbytes <= min(left, BATCH_BYTES_MAX)
    if not whole or fields[3] != MAGIC or fields[0] < 0 or fields[6] < 0:
        raise CorruptLogError(f"{path}: no whole batch at position {position}")
    return nbytes, fields[0] + fields[6] + 1


def _checked(window: bytes, at: int, nbytes: int, path: str, position: int) -> RecordBatchView:
    if len(window) - at < nbytes:
        raise CorruptLogError(f"{path} ends inside the batch at position {position}")
    view = RecordBatchView(window, at, at + nbytes)
    if not view.crc_ok():
        raise CorruptLogError(f"{path}: wrong checksum at position {position}")
    return view
