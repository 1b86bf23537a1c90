"""The 61-byte header of a record batch (magic 2), read and patched in place.

This is hot-path code: the broker does not decode records, it checks and patches headers. CRC-32C
covers attributes to end, so base offset, leader epoch and length can be rewritten without it; only
a topic with LogAppendTime needs a new checksum. Layout: Kafka's `DefaultRecordBatch`.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from highwater.kafka.errors import RecordsError
from highwater.kafka.primitives import Buffer

BATCH_HEADER = struct.Struct(">qiiBIhiqqqhii")
HEADER_SIZE = BATCH_HEADER.size
LENGTH_OVERHEAD = 12
"""Bytes that batch_length does not count; the batch's size is batch_length + LENGTH_OVERHEAD."""
MAGIC = 2

# Where each header field starts, counted from the start of the batch.
BASE_OFFSET_AT = 0
BATCH_LENGTH_AT = 8
LEADER_EPOCH_AT = 12
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 21
LAST_OFFSET_DELTA_AT = 23
BASE_TIMESTAMP_AT = 27
MAX_TIMESTAMP_AT = 35
PRODUCER_ID_AT = 43
PRODUCER_EPOCH_AT = 51
BASE_SEQUENCE_AT = 53
RECORD_COUNT_AT = 57

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_INT64 = struct.Struct(">q")
_LENGTH_PREFIX = struct.Struct(">qi")
_PREFIX = struct.Struct(">qii")


class BatchHeader(NamedTuple):
    """All header fields of one batch, in wire order."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Read the whole header at `pos`; RecordsError if fewer than 61 bytes are left."""
    if pos < 0 or len(buf) - pos < HEADER_SIZE:
        raise RecordsError(f"no whole batch header at {pos} of {len(buf)}")
    return BatchHeader._make(BATCH_HEADER.unpack_from(buf, pos))


def crc_of(buf: Buffer, start: int, end: int) -> int:
    """Compute the CRC-32C of the batch that occupies buf[start:end]."""
    return crc32c(memoryview(buf)[start + ATTRIBUTES_AT : end])


def crc_ok(buf: Buffer, start: int, end: int) -> bool:
    """Say whether the batch that occupies buf[start:end] matches its checksum."""
    if end - start < HEADER_SIZE or end > len(buf):
        return False
    stored: int = _UINT32.unpack_from(buf, start + CRC_AT)[0]
    return crc32c(memoryview(buf)[start + ATTRIBUTES_AT : end]) == stored


def set_base_offset_and_epoch(
    buf: bytearray | memoryview, pos: int, base_offset: int, leader_epoch: int
) -> None:
    """Write the base offset and leader epoch of the batch at `pos`; the CRC does not cover them."""
    _INT64.pack_into(buf, pos, base_offset)
    _INT32.pack_into(buf, pos + LEADER_EPOCH_AT, leader_epoch)


def patched_prefix(batch_length: int, base_offset: int, leader_epoch: int) -> bytes:
    """Return the first 16 bytes of a batch, to replace those of a read-only buffer."""
    return _PREFIX.pack(base_offset, batch_length, leader_epoch)


def restamp_log_append_time(
    buf: bytearray | memoryview, pos: int, end: int, timestamp_ms: int
) -> None:
    """Give the batch at buf[pos:end] the LogAppendTime `timestamp_ms` and a new CRC.

    The base timestamp stays, as in Kafka: readers use max_timestamp for every record.
    """
    (attributes,) = _INT16.unpack_from(buf, pos + ATTRIBUTES_AT)
    _INT16.pack_into(buf, pos + ATTRIBUTES_AT, attributes | LOG_APPEND_TIME_BIT)
    correct_max_timestamp(buf, pos, end, timestamp_ms)


def without_log_append_time(batch: bytearray | memoryview) -> bytearray:
    """A copy of one batch that a leader accepts from a producer, as before `restamp_log_append_time`.

    But the largest timestamp remains; the leader that sets LogAppendTime replaces it.
    """
    copy = bytearray(batch)
    if len(copy) >= HEADER_SIZE:
        (attributes,) = _INT16.unpack_from(copy, ATTRIBUTES_AT)
        if attributes & LOG_APPEND_TIME_BIT:
            _INT16.pack_into(copy, ATTRIBUTES_AT, attributes & ~LOG_APPEND_TIME_BIT)
            _UINT32.pack_into(copy, CRC_AT, crc_of(copy, 0, len(copy)))
    return copy


def correct_max_timestamp(
    buf: bytearray | memoryview, pos: int, end: int, timestamp_ms: int
) -> None:
    """Correct the max_timestamp of the batch at buf[pos:end], and its CRC.

    Kafka: `DefaultRecordBatch.setMaxTimestamp`.
    """
    _INT64.pack_into(buf, pos + MAX_TIMESTAMP_AT, timestamp_ms)
    _UINT32.pack_into(buf, pos + CRC_AT, crc_of(buf, pos, end))


def compression_of(attributes: int) -> int:
    """Return the compression code (0 to 7; 0 to 4 are assigned)."""
    return attributes & COMPRESSION_MASK


def is_log_append_time(attributes: int) -> bool:
    """Say whether the broker stamped the batch (LogAppendTime) rather than the producer."""
    return bool(attributes & LOG_APPEND_TIME_BIT)


def is_control(attributes: int) -> bool:
    """Say whether the batch holds control records, which are not for applications."""
    return bool(attributes & CONTROL_BIT)


class RecordBatchView:
    """One whole batch inside a buffer; fields are read on access, nothing is copied.

    `start` and `end` are positions in `buf`. `iter_batches` has checked that the whole batch is in
    the buffer and its magic is 2. The CRC is checked only by `crc_ok`.
    """

    __slots__ = ("buf", "end", "start")

    def __init__(self, buf: Buffer, start: int, end: int) -> None:
        """Look at buf[start:end], which must hold one whole batch."""
        self.buf = buf
        self.start = start
        self.end = end

    def __repr__(self) -> str:
        """Show position, offsets and count."""
        header = self.header()
        return (
            f"RecordBatchView({self.start}:{self.end}, offsets {header.base_offset}.."
            f"{header.base_offset + header.last_offset_delta}, records {header.record_count})"
        )

    def header(self) -> BatchHeader:
        """Read all fields at once; cheaper than three properties."""
        return BatchHeader._make(BATCH_HEADER.unpack_from(self.buf, self.start))

    def crc_ok(self) -> bool:
        """Say whether the stored checksum matches the content."""
        return crc_ok(self.buf, self.start, self.end)

    @property
    def base_offset(self) -> int:
        """Offset of the first record."""
        return _int64_at(self.buf, self.start + BASE_OFFSET_AT)

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_offset_delta(self) -> int:
        """Offset of the last record, relative to the first."""
        return _int32_at(self.buf, self.start + LAST_OFFSET_DELTA_AT)

    @property
    def size(self) -> int:
        """Bytes from the base offset to the end of the batch."""
        return self.end - self.start

    @property
    def leader_epoch(self) -> int:
        """Epoch of the leader that appended the batch, -1 when none has."""
        return _int32_at(self.buf, self.start + LEADER_EPOCH_AT)

    @property
    def attributes(self) -> int:
        """Bit set of compression, timestamp type, transactional and control."""
        return int(_INT16.unpack_from(self.buf, self.start + ATTRIBUTES_AT)[0])

    @property
    def compression(self) -> int:
        """Compression code."""
        return compression_of(self.attributes)

    @property
    def base_timestamp(self) -> int:
        """Timestamp of the first record as it was built, ms since the epoch."""
        return _int64_at(self.buf, self.start + BASE_TIMESTAMP_AT)

    @property
    def max_timestamp(self) -> int:
        """Highest timestamp in the batch, ms since the epoch."""
        return _int64_at(self.buf, self.start + MAX_TIMESTAMP_AT)

    @property
    def producer_id(self) -> int:
        """Id of an idempotent producer, -1 for others."""
        return _int64_at(self.buf, self.start + PRODUCER_ID_AT)

    @property
    def record_count(self) -> int:
        """Number of records; compaction can make it smaller than the span of offsets."""
        return _int32_at(self.buf, self.start + RECORD_COUNT_AT)

    @property
    def payload(self) -> memoryview:
        """The records as they lie in the batch, compressed or not."""
        return memoryview(self.buf)[self.start + HEADER_SIZE : self.end]


def iter_batches(buf: Buffer, pos: int = 0, end: int | None = None) -> Iterator[RecordBatchView]:
    """Yield the whole batches in buf[pos:end] and stop before a batch that is cut off.

    Fetch responses and segment tails may end inside a batch, so that is not an error; the last
    view's `end` is where the iteration stopped. Raises RecordsError for an impossible length or a
    magic other than 2.
    """
    stop = len(buf) if end is None else min(end, len(buf))
    while stop - pos >= LENGTH_OVERHEAD:
        _base_offset, batch_length = _LENGTH_PREFIX.unpack_from(buf, pos)
        batch_end = pos + LENGTH_OVERHEAD + batch_length
        if stop - pos > MAGIC_AT and buf[pos + MAGIC_AT] != MAGIC:
            raise RecordsError(f"batch at {pos} has magic {buf[pos + MAGIC_AT]}, not {MAGIC}")
        if batch_end - pos < HEADER_SIZE:
            raise RecordsError(f"batch at {pos} has impossible length {batch_length}")
        if batch_end > stop:
            return
        yield RecordBatchView(buf, pos, batch_end)
        pos = batch_end


def _int32_at(buf: Buffer, pos: int) -> int:
    return int(_INT32.unpack_from(buf, pos)[0])


def _int64_at(buf: Buffer, pos: int) -> int:
    return int(_INT64.unpack_from(buf, pos)[0])
