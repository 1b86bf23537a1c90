"""Record batches become message sets of formats 0 and 1, for consumers that know nothing newer.

Kafka's way (`RecordsUtil.downConvert`, until 4.0): headers are dropped, control batches left out, and
transactions are as for read_uncommitted. A batch keeps its compression and its offsets. Of one
without compression, records before the wanted offset are left out.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.errors import DecompressedTooLargeError, RecordsError
from highwater.kafka.primitives import Buffer
from highwater.kafka.records.batch import (
    LOG_APPEND_TIME_BIT,
    RecordBatchView,
    is_control,
    is_log_append_time,
    iter_batches,
)
from highwater.kafka.records.compression import Compression, compress
from highwater.kafka.records.lz4_format_0 import compress_lz4
from highwater.kafka.records.message_set import (
    MAGIC_0,
    MAGIC_1,
    NO_TIMESTAMP,
    append_message,
)
from highwater.kafka.records.record import Record, read_records

NOTHING_READ: Final = -1


class DownConverted(NamedTuple):
    """A message set, and how far it goes.

    `next_offset` is behind the last batch that was looked at, NOTHING_READ if there was no whole one.
    So an empty set with a `next_offset` stands for batches that say nothing to an old consumer, who
    would ask for them for ever. With an `error` there are no messages.
    """

    messages: bytes
    next_offset: int
    error: ErrorCode = ErrorCode.NONE


def to_message_set(
    batches: Buffer, magic: int, *, fetch_offset: int, size_max: int, decompressed_size_max: int
) -> DownConverted:
    """The message set of format `magic` (0 or 1) for whole batches; one that is cut off is left out.

    Stops behind the batch with which the set reaches `size_max` bytes. A batch that cannot be
    converted ends the set before it; as the first one, it is the error: UNSUPPORTED_COMPRESSION_TYPE
    for zstd, CORRUPT_MESSAGE, or UNSUPPORTED_VERSION if its records or, where they are compressed, its
    messages take more than `decompressed_size_max` bytes.
    """
    out = bytearray()
    next_offset = NOTHING_READ
    try:
        for batch in iter_batches(batches):
            problem = ErrorCode.NONE
            if not is_control(batch.attributes):
                problem = _convert(out, batch, magic, fetch_offset, decompressed_size_max)
            if problem:
                return _ended(out, next_offset, problem)
            next_offset = batch.last_offset + 1
            if len(out) >= size_max:
                break
    except RecordsError:
        return _ended(out, next_offset, ErrorCode.CORRUPT_MESSAGE)
    return DownConverted(bytes(out), next_offset)


def _ended(out: bytearray, next_offset: int, problem: ErrorCode) -> DownConverted:
    """What there is before a batch that cannot be converted."""
    if out:
        return DownConverted(bytes(out), next_offset)
    return DownConverted(b"", next_offset, problem)


def _convert(
    out: bytearray, batch: RecordBatchView, magic: int, fetch_offset: int, size_max: int
) -> ErrorCode:
    """Adds a batch's messages to `out`, or returns why not and adds nothing."""
    if batch.compression == Compression.ZSTD:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if not batch.crc_ok():
        return ErrorCode.CORRUPT_MESSAGE
    stamp = LOG_APPEND_TIME_BIT if magic and is_log_append_time(batch.attributes) else 0
    before = len(out)
    try:
        records = read_records(batch, size_max)
        if batch.compression == Compression.NONE:
            for record in records:
                if record.offset >= fetch_offset:
                    _append(out, record, magic, stamp, 0)
        else:
            _append_wrapper(out, records, magic, stamp, batch.compression, size_max)
    except DecompressedTooLargeError:
        return ErrorCode.UNSUPPORTED_VERSION
    except RecordsError:
        del out[before:]
        return ErrorCode.CORRUPT_MESSAGE
    return ErrorCode.NONE


def _append(out: bytearray, record: Record, magic: int, attributes: int, base_offset: int) -> None:
    append_message(
        out,
        magic=magic,
        offset=record.offset - base_offset,
        attributes=attributes,
        timestamp=record.timestamp,
        key=record.key,
        value=record.value,
    )


def _append_wrapper(
    out: bytearray, records: Iterable[Record], magic: int, stamp: int, codec: int, size_max: int
) -> None:
    """Adds a compressed set, if there are any records. They are never all in memory as objects: a few
    kilobytes may hold millions of them. Raises DecompressedTooLargeError if they take more as messages.
    """
    inner = bytearray()
    base_offset = last_offset = NOTHING_READ
    largest_timestamp = NO_TIMESTAMP
    for record in records:
        if base_offset == NOTHING_READ:
            base_offset = record.offset if magic == MAGIC_1 else 0
            largest_timestamp = record.timestamp
        _append(inner, record, magic, stamp, base_offset)
        if len(inner) > size_max:
            raise DecompressedTooLargeError(f"the messages take more than {size_max} bytes")
        last_offset = record.offset
        largest_timestamp = max(largest_timestamp, record.timestamp)
    if not inner:
        return
    old_lz4 = codec == Compression.LZ4 and magic == MAGIC_0
    append_message(
        out,
        magic=magic,
        offset=last_offset,
        attributes=codec | stamp,
        timestamp=largest_timestamp,
        key=None,
        value=compress_lz4(inner) if old_lz4 else compress(codec, inner),
    )
