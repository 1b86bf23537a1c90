"""The checks of a batch before a broker appends it (Kafka's `LogValidator`).

`validate_header` is the hot path: one struct read, integer comparisons and the CRC. `validate_deep`
decompresses the records; it runs for compacted topics and where a topic config asks for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.errors import DecompressedTooLargeError, RecordsError
from highwater.kafka.primitives import Buffer
from highwater.kafka.records.batch import (
    ATTRIBUTES_AT,
    BATCH_HEADER,
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    RecordBatchView,
)
from highwater.kafka.records.compression import Compression, decompress
from highwater.kafka.records.record import RECORD_SIZE_MIN, iter_raw_records

NO_TIMESTAMP = -1
RECORD_ERRORS_MAX = 1000
"""Invalid records that a response lists, some 100 KB of messages. Kafka lists all."""


class RecordError(NamedTuple):
    """Why one record, and with it the batch, is refused (KIP-467)."""

    batch_index: int
    """The record's place in its batch, from 0."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProblem:
    """Why a batch is refused, and its invalid records if there are any."""

    error: ErrorCode
    message: str
    record_errors: Sequence[RecordError] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsSummary:
    """The result of deep validation: the highest timestamp and the first record that has it."""

    max_timestamp: int
    offset_delta_of_max_timestamp: int


def validate_header(
    buf: Buffer, start: int, end: int, *, from_client: bool = True, zstd_allowed: bool = True
) -> BatchProblem | None:
    """Check that buf[start:end] is exactly one valid batch of magic 2; None means that it is.

    `from_client` adds the rules for producers: no control batch, no LogAppendTime bit, a sequence with
    each producer id, and offsets without gaps. `zstd_allowed` is false for Produce before version 7.
    """
    if end - start < HEADER_SIZE or end > len(buf):
        return _corrupt(f"{end - start} bytes are less than a batch header")
    (
        _base_offset,
        batch_length,
        _leader_epoch,
        magic,
        crc,
        attributes,
        last_offset_delta,
        _base_timestamp,
        _max_timestamp,
        producer_id,
        _producer_epoch,
        base_sequence,
        record_count,
    ) = BATCH_HEADER.unpack_from(buf, start)
    if magic != MAGIC:
        return _invalid(f"magic {magic} is not supported, only {MAGIC} is")
    if start + LENGTH_OVERHEAD + batch_length != end:
        return _length_problem(batch_length, end - start)
    if crc32c(memoryview(buf)[start + ATTRIBUTES_AT : end]) != crc:
        return _corrupt("the checksum does not match")
    if record_count <= 0 or last_offset_delta < 0:
        return _invalid(f"{record_count} records, last offset delta {last_offset_delta}")
    compression = attributes & COMPRESSION_MASK
    if compression == 0:
        if record_count > (end - start - HEADER_SIZE) // RECORD_SIZE_MIN:
            return _invalid(f"{record_count} records cannot lie in {end - start} bytes")
    elif compression > Compression.ZSTD or (compression == Compression.ZSTD and not zstd_allowed):
        return BatchProblem(
            error=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            message=f"compression code {compression} is not allowed here",
        )
    if from_client:
        if producer_id >= 0 and base_sequence < 0 and not attributes & CONTROL_BIT:
            return _invalid(f"producer id {producer_id} with base sequence {base_sequence}")
        if last_offset_delta + 1 != record_count:
            return _invalid(f"{record_count} records, last offset delta {last_offset_delta}")
        if attributes & CONTROL_BIT:
            return _invalid("clients may not write control batches")
        if attributes & LOG_APPEND_TIME_BIT:
            return BatchProblem(
                error=ErrorCode.INVALID_TIMESTAMP,
                message="producers may not set the timestamp type to LogAppendTime",
            )
    return None


def validate_deep(
    batch: RecordBatchView,
    *,
    decompressed_size_max: int,
    compacted: bool = False,
    timestamp_min: int | None = None,
    timestamp_max: int | None = None,
) -> RecordsSummary | BatchProblem:
    """Decompress and check every record of a batch that `validate_header` accepted.

    Offset deltas must run 0..n-1 and records must fill the payload exactly; on compacted topics
    each record needs a key; timestamps (CreateTime, ms) must be within the given bounds. Records
    that contradict the header are INVALID_RECORD (Kafka: DefaultRecordBatch's iterators
    throw InvalidRecordException); a payload that cannot be decompressed is CORRUPT_MESSAGE.

    Keys and timestamps of all records are checked before the batch is refused, as in Kafka
    (`LogValidator.processRecordErrors`): with INVALID_TIMESTAMP if any timestamp is invalid, else
    with INVALID_RECORD.
    """
    header = batch.header()
    max_timestamp = NO_TIMESTAMP
    max_timestamp_delta = 0
    faults = _Faults()
    try:
        payload = decompress(batch.compression, batch.payload, decompressed_size_max)
    except DecompressedTooLargeError as error:
        return BatchProblem(error=ErrorCode.MESSAGE_TOO_LARGE, message=str(error))
    except RecordsError as error:
        return _corrupt(str(error))
    try:
        for index, record in enumerate(iter_raw_records(payload, header.record_count)):
            if record.offset_delta != index:
                return _invalid(f"offset delta {record.offset_delta} at record {index}", index)
            timestamp = header.base_timestamp + record.timestamp_delta
            if timestamp > max_timestamp:
                max_timestamp, max_timestamp_delta = timestamp, index
            if compacted and record.key is None:
                faults.add(index, "a compacted topic takes no record without a key")
            elif timestamp == NO_TIMESTAMP:
                continue
            elif timestamp_min is not None and timestamp < timestamp_min:
                faults.add_timestamp(index, f"timestamp {timestamp} is before {timestamp_min}")
            elif timestamp_max is not None and timestamp > timestamp_max:
                faults.add_timestamp(index, f"timestamp {timestamp} is after {timestamp_max}")
    except RecordsError as error:
        return _invalid(str(error))
    if faults.count:
        return faults.problem()
    return RecordsSummary(
        max_timestamp=max_timestamp, offset_delta_of_max_timestamp=max_timestamp_delta
    )


class _Faults:
    """The invalid records of one batch."""

    __slots__ = ("count", "error", "named")

    def __init__(self) -> None:
        self.count = 0
        self.error = ErrorCode.INVALID_RECORD
        self.named: list[RecordError] = []

    def add(self, batch_index: int, message: str) -> None:
        self.count += 1
        if self.count <= RECORD_ERRORS_MAX:
            self.named.append(RecordError(batch_index, message))

    def add_timestamp(self, batch_index: int, message: str) -> None:
        self.add(batch_index, message)
        self.error = ErrorCode.INVALID_TIMESTAMP

    def problem(self) -> BatchProblem:
        if self.error is ErrorCode.INVALID_TIMESTAMP:
            message = "one or more records have been rejected due to an invalid timestamp"
        else:
            first = "; ".join(f"record {index}: {text}" for index, text in self.named[:3])
            message = f"the batch is rejected due to {self.count} record errors, the first: {first}"
        return BatchProblem(error=self.error, message=message, record_errors=self.named)


def _length_problem(batch_length: int, size: int) -> BatchProblem:
    """Distinguish a batch that is cut off (corrupt) from one that another follows (invalid)."""
    if HEADER_SIZE <= batch_length + LENGTH_OVERHEAD < size:
        return _invalid("a partition's records must be exactly one batch")
    return _corrupt(f"batch length {batch_length} does not fit {size} bytes")


def _corrupt(message: str) -> BatchProblem:
    return BatchProblem(error=ErrorCode.CORRUPT_MESSAGE, message=message)


def _invalid(message: str, batch_index: int | None = None) -> BatchProblem:
    named = () if batch_index is None else (RecordError(batch_index, message),)
    return BatchProblem(error=ErrorCode.INVALID_RECORD, message=message, record_errors=named)
