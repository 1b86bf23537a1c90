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
from highwater.kafka.records.message_set import MAGIC_0, MAGIC_1, append_message
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
    for zstd, CORRUPT_MESSAGE, or UNSUPPORTED_VERSION if it decompresses to more than
    `decompressed_size_max` bytes.
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
    try:
        records = list(read_records(batch, size_max))
    except DecompressedTooLargeError:
        return ErrorCode.UNSUPPORTED_VERSION
    stamp = LOG_APPEND_TIME_BIT if magic and is_log_append_time(batch.attributes) else 0
    if batch.compression == Compression.NONE:
        _append(out, (r for r in records if r.offset >= fetch_offset), magic, stamp, 0)
    elif records:
        _append_wrapper(out, records, magic, stamp, batch.compression)
    return ErrorCode.NONE


def _append(
    out: bytearray, records: Iterable[Record], magic: int, attributes: int, base_offset: int
) -> None:
    for record in records:
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
    out: bytearray, records: list[Record], magic: int, stamp: int, codec: int
) -> None:
    inner = bytearray()
    _append(inner, records, magic, stamp, records[0].offset if magic == MAGIC_1 else 0)
    old_lz4 = codec == Compression.LZ4 and magic == MAGIC_0
    append_message(
        out,
        magic=magic,
        offset=records[-1].offset,
        attributes=codec | stamp,
        timestamp=max(record.timestamp for record in records),
        key=None,
        value=compress_lz4(inner) if old_lz4 else compress(codec, inner),
    )
