"""Checks one piece of a closed segment: CRC, lengths and order of offsets of its batches (R13).

Runs on any thread and touches files only. Each piece opens the file again and identifies it by its
inode, as segments may be deleted, compacted or truncated meanwhile. It leaves no pages in the page
cache that were not there before: a scrubber must not push out what consumers read.
"""

import os
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from highwater.kafka.records.batch import LENGTH_OVERHEAD, MAGIC
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.recovery.recovery import CRC_COVERS_FROM
from highwater.partition.storage.segment.batches import BATCH_BYTES_MAX, HEADER, HEADER_BYTES

PIECE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """A closed segment as it was when its check began."""

    path: str
    inode: int
    size: int
    base_offset: int
    next_base_offset: int
    """The next segment's base offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The result for one piece; the next one begins at `position` and `next_offset`."""

    position: int
    next_offset: int
    nbytes: int
    """How many bytes were read."""
    damage: str = ""
    """What is wrong with the batch at `position`; empty if nothing is."""
    damage_end: int = -1
    """The offset after it where intact batches may go on."""
    gone: bool = False
    """The file is no longer the one that was to be checked."""


def check_piece(filesystem: FileSystem, file: SegmentFile, position: int, expected: int) -> Piece:
    """Checks the batches from `position` on. The first begins at offset `expected` or, in a
    compacted log, later. Raises LogDirFailure if the file cannot be read.
    """
    try:
        fd = filesystem.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return Piece(position=position, next_offset=expected, nbytes=0, gone=True)
    except OSError as error:
        raise LogDirFailure(file.path, error) from error
    try:
        status = filesystem.fstat(fd)
        if status.st_ino != file.inode or status.st_size < file.size:
            return Piece(position=position, next_offset=expected, nbytes=0, gone=True)
        data = _read(filesystem, fd, position, min(PIECE_BYTES, file.size - position))
        need = _first_batch_bytes(data)
        if len(data) < need <= min(file.size - position, BATCH_BYTES_MAX):
            data = _read(filesystem, fd, position, need)
    except OSError as error:
        raise LogDirFailure(file.path, error) from error
    finally:
        filesystem.close(fd)
    return _check(file, data, position, expected)


def _check(file: SegmentFile, data: bytes, position: int, expected: int) -> Piece:
    view = memoryview(data)
    at = 0
    while at < len(view):
        wrong, fields, nbytes = _check_batch(view[at:], expected, file, position + at)
        if not fields:
            break
        if wrong:
            sound_length = fields[6] + 1 > 0 and nbytes <= file.size - position - at
            end = max(fields[0] + fields[6], expected) + 1 if sound_length else -1
            return Piece(
                position=position + at,
                next_offset=expected,
                nbytes=len(data),
                damage=wrong,
                damage_end=min(end, file.next_base_offset) if end > 0 else file.next_base_offset,
            )
        at += nbytes
        expected = fields[0] + fields[6] + 1
    return Piece(position=position + at, next_offset=expected, nbytes=len(data))


def _check_batch(
    view: memoryview, expected: int, file: SegmentFile, position: int
) -> tuple[str, tuple[int, ...], int]:
    """(what is wrong, header fields, bytes); no fields if the piece ends inside the batch."""
    left = file.size - position
    if left < HEADER_BYTES:
        return "the segment ends inside a header", (-1,) * 13, left
    if len(view) < HEADER_BYTES:
        return "", (), 0
    fields: tuple[int, ...] = HEADER.unpack_from(view)
    nbytes = fields[1] + LENGTH_OVERHEAD
    sound = HEADER_BYTES <= nbytes <= min(left, BATCH_BYTES_MAX)
    if fields[3] != MAGIC or not sound or fields[6] < 0:
        return "there is no batch", (*fields[:6], -1, *fields[7:]), nbytes
    if nbytes > len(view):
        return "", (), 0
    if crc32c(view[CRC_COVERS_FROM:nbytes]) != fields[4]:
        return "the CRC does not match", fields, nbytes
    if fields[0] < expected or fields[0] + fields[6] >= file.next_base_offset:
        return f"offset {fields[0]} follows {expected}", (*fields[:6], -1, *fields[7:]), nbytes
    return "", fields, nbytes


def _first_batch_bytes(data: bytes) -> int:
    if len(data) < HEADER_BYTES:
        return 0
    return int(HEADER.unpack_from(data)[1]) + LENGTH_OVERHEAD


def _read(filesystem: FileSystem, fd: int, position: int, nbytes: int) -> bytes:
    """Reads, and removes pages from the page cache that were not there before."""
    cached = _is_cached(fd, position, nbytes)
    data = filesystem.pread(fd, nbytes, position)
    if not cached:
        os.posix_fadvise(fd, position, nbytes, os.POSIX_FADV_DONTNEED)
    return data


def _is_cached(fd: int, position: int, nbytes: int) -> bool:
    """Whether the range's last page is cached; readers of a log read a piece to its end."""
    try:
        last = os.preadv(fd, [bytearray(1)], position + max(nbytes - 1, 0), os.RWF_NOWAIT)
    except OSError:
        return False
    return last == 1
