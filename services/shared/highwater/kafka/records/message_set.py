"""Message sets: the layout of records in Kafka's message formats 0 and 1, before record batches.

A message set is messages one after the other, each:

    offset i64, size i32, crc u32, magic i8, attributes i8, timestamp i64 (format 1 only),
    key length i32, key, value length i32, value

The size counts what follows it; the CRC-32 (IEEE) covers magic to value; a length of -1 is null.
Attributes: bits 0 to 2 are the compression, bit 3 (format 1) says LogAppendTime. A compressed set is
one message, the wrapper, whose value is a message set: its offsets are absolute in format 0; in
format 1 they are relative to the first, and the wrapper has the offset of the last and the largest
timestamp. Source: Kafka's `LegacyRecord`, `AbstractLegacyRecordBatch` and KIP-32.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from highwater.kafka.errors import RecordsError
from highwater.kafka.primitives import Buffer

MAGIC_0: Final = 0
MAGIC_1: Final = 1
SET_MAGIC_AT: Final = 16
"""Where the first message's magic is; that of a record batch is at the same place."""
SET_ATTRIBUTES_AT: Final = 17
NO_TIMESTAMP: Final = -1
"""The timestamp of a message of format 0."""

_ENTRY: Final = struct.Struct(">qiIbb")
_OVERHEAD: Final = 12
"""Offset and size, which the size does not count."""
_CRC_AT: Final = 12
_SIZE_MIN: Final = 14
"""CRC, magic, attributes and two lengths (Kafka: `LegacyRecord.RECORD_OVERHEAD_V0`)."""
_TIMESTAMP: Final = struct.Struct(">q")
_LENGTH: Final = struct.Struct(">i")
_NULL: Final = _LENGTH.pack(-1)
_BODY_0: Final = struct.Struct(">bb")
_BODY_1: Final = struct.Struct(">bbq")
_PREFIX: Final = struct.Struct(">qiI")


class Message(NamedTuple):
    """One message; key and value are views into the set. `timestamp` is ms since the epoch."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None


def iter_messages(message_set: Buffer) -> Iterator[Message]:
    """Yields the whole messages of a set and stops before one that is cut off, as in fetch answers.

    Raises RecordsError for an impossible size or length, a magic other than 0 and 1, or a checksum
    that does not match. Compressed wrappers are yielded as they are.
    """
    view = memoryview(message_set)
    stop = len(view)
    pos = 0
    while stop - pos >= _ENTRY.size:
        offset, size, crc, magic, attributes = _ENTRY.unpack_from(view, pos)
        if size < _SIZE_MIN:
            raise RecordsError(f"message at {pos} has impossible size {size}")
        end = pos + _OVERHEAD + size
        if end > stop:
            return
        if magic not in (MAGIC_0, MAGIC_1):
            raise RecordsError(f"message at {pos} has magic {magic}, neither 0 nor 1")
        if zlib.crc32(view[pos + _CRC_AT + 4 : end]) != crc:
            raise RecordsError(f"the checksum of the message at {pos} does not match")
        at = pos + _ENTRY.size
        timestamp = NO_TIMESTAMP
        if magic == MAGIC_1:
            if end - at < _TIMESTAMP.size + 2 * _LENGTH.size:
                raise RecordsError(f"message at {pos} has impossible size {size}")
            (timestamp,) = _TIMESTAMP.unpack_from(view, at)
            at += _TIMESTAMP.size
        key, at = _read_bytes(view, at, end)
        value, at = _read_bytes(view, at, end)
        if at != end:
            raise RecordsError(f"fields of the message at {pos} end at {at}, its size says {end}")
        yield Message(offset, magic, attributes, timestamp, key, value)
        pos = end


def append_message(
    out: bytearray,
    *,
    magic: int,
    offset: int,
    attributes: int,
    timestamp: int,
    key: Buffer | None,
    value: Buffer | None,
) -> None:
    """Adds one message to a set; format 0 has no timestamp."""
    body = (
        _BODY_0.pack(magic, attributes)
        if magic == MAGIC_0
        else _BODY_1.pack(magic, attributes, timestamp)
    )
    head = body + (_NULL if key is None else _LENGTH.pack(len(key)) + key)
    head += _NULL if value is None else _LENGTH.pack(len(value))
    crc = zlib.crc32(head)
    size = 4 + len(head)
    if value is not None:
        crc = zlib.crc32(value, crc)
        size += len(value)
    out += _PREFIX.pack(offset, size, crc)
    out += head
    if value is not None:
        out += value


def _read_bytes(view: memoryview, pos: int, end: int) -> tuple[memoryview | None, int]:
    if end - pos < _LENGTH.size:
        raise RecordsError(f"no whole length at {pos}")
    (length,) = _LENGTH.unpack_from(view, pos)
    pos += _LENGTH.size
    if length == -1:
        return None, pos
    stop = pos + length
    if length < 0 or stop > end:
        raise RecordsError(f"length {length} at {pos - _LENGTH.size}")
    return view[pos:stop], stop
