"""Records inside a batch: varint-coded fields, decoded from the decompressed payload.

Only consumers inside the project and deep validation use it, not the produce and fetch paths.
Layout: Kafka's `DefaultRecord`.
"""

from collections.abc import Iterator
from typing import NamedTuple

from highwater.kafka.errors import DecodeError, InvalidLengthError, RecordsError
from highwater.kafka.primitives import Buffer, read_varint, read_varlong
from highwater.kafka.records.batch import RecordBatchView, is_log_append_time
from highwater.kafka.records.compression import decompress

RECORD_SIZE_MIN = 7
"""Length, attributes, two deltas, key length, value length, header count: one byte each."""

_INT64_MAX = 2**63 - 1

HEADERS_MAX = 65_536
"""Headers of one record; far above what real clients use."""

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record with its absolute offset and timestamp (ms since the epoch)."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class RawRecord(NamedTuple):
    """One record as it is stored: deltas to the batch's base offset and base timestamp."""

    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def read_records(batch: RecordBatchView, decompressed_size_max: int) -> Iterator[Record]:
    """Yield the records of a batch; its CRC is not checked here.

    Raises RecordsError or one of its subclasses if a record is malformed, or if the payload holds
    more or fewer records than the header says.
    """
    header = batch.header()
    payload = decompress(batch.compression, batch.payload, decompressed_size_max)
    stamped = is_log_append_time(header.attributes)
    for raw in iter_raw_records(payload, header.record_count):
        timestamp = header.max_timestamp
        if not stamped:
            timestamp = _timestamp(header.base_timestamp, raw.timestamp_delta)
        yield Record(
            header.base_offset + raw.offset_delta,
            timestamp,
            raw.key,
            raw.value,
            raw.headers,
        )


def first_with_timestamp(
    batch: RecordBatchView, timestamp: int, start_offset: int, decompressed_size_max: int
) -> tuple[int, int] | None:
    """(timestamp, offset) of the first record from `start_offset` on with at least `timestamp`.

    None if the batch has none. Keys and values are passed over. Raises as `read_records`.
    """
    header = batch.header()
    payload = decompress(batch.compression, batch.payload, decompressed_size_max)
    stamped = is_log_append_time(header.attributes)
    pos = 0
    for index in range(header.record_count):
        try:
            length, pos = read_varint(payload, pos)
            end = pos + length
            if length < RECORD_SIZE_MIN - 1 or end > len(payload):
                raise InvalidLengthError(f"record length {length} at {pos}")
            delta, pos = read_varlong(payload, pos + 1)
            offset_delta, _ = read_varint(payload, pos)
        except IndexError as error:
            raise RecordsError(f"record {index} ends early") from error
        found = header.max_timestamp if stamped else _timestamp(header.base_timestamp, delta)
        offset = header.base_offset + offset_delta
        if found >= timestamp and offset >= start_offset:
            return found, offset
        pos = end
    return None


def _timestamp(base: int, delta: int) -> int:
    """A record's timestamp. Nobody checks the deltas in an append, and 64 bits must hold the sum."""
    timestamp = base + delta
    if not -_INT64_MAX - 1 <= timestamp <= _INT64_MAX:
        raise RecordsError(f"timestamp {timestamp} does not fit into 64 bits")
    return timestamp


def iter_raw_records(payload: Buffer, record_count: int) -> Iterator[RawRecord]:
    """Yield exactly `record_count` records that fill `payload` exactly, or raise RecordsError."""
    if not 0 <= record_count <= len(payload) // RECORD_SIZE_MIN:
        raise RecordsError(f"{record_count} records cannot lie in {len(payload)} bytes")
    pos = 0
    for index in range(record_count):
        try:
            record, pos = _read_record(payload, pos)
        except IndexError as error:
            raise RecordsError(f"record {index} ends early") from error
        except RecordsError:
            raise
        except (DecodeError, UnicodeDecodeError) as error:
            raise RecordsError(f"record {index}: {error}") from error
        yield record
    if pos != len(payload):
        raise RecordsError(f"{len(payload) - pos} bytes follow the last record")


def _read_record(payload: Buffer, pos: int) -> tuple[RawRecord, int]:
    length, pos = read_varint(payload, pos)
    end = pos + length
    if length < RECORD_SIZE_MIN - 1 or end > len(payload):
        raise InvalidLengthError(f"record length {length} at {pos}")
    # The attributes byte has no assigned bit.
    timestamp_delta, pos = read_varlong(payload, pos + 1)
    offset_delta, pos = read_varint(payload, pos)
    key, pos = _read_bytes(payload, pos, end)
    value, pos = _read_bytes(payload, pos, end)
    headers: Headers = ()
    if payload[pos]:
        headers, pos = _read_headers(payload, pos, end)
    else:
        pos += 1
    if pos != end:
        raise InvalidLengthError(f"record fields end at {pos}, its length says {end}")
    return RawRecord(offset_delta, timestamp_delta, key, value, headers), pos


def _read_headers(payload: Buffer, pos: int, end: int) -> tuple[Headers, int]:
    count, pos = read_varint(payload, pos)
    if not 0 <= count <= min(HEADERS_MAX, end - pos):
        raise InvalidLengthError(f"header count {count}")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, pos = _read_bytes(payload, pos, end)
        if name is None:
            raise InvalidLengthError("header without a name")
        value, pos = _read_bytes(payload, pos, end)
        headers.append((name.decode(), value))
    return tuple(headers), pos


def _read_bytes(payload: Buffer, pos: int, end: int) -> tuple[bytes | None, int]:
    length, pos = read_varint(payload, pos)
    if length == -1:
        return None, pos
    stop = pos + length
    if length < 0 or stop > end:
        raise InvalidLengthError(f"length {length} at {pos}")
    return bytes(payload[pos:stop]), stop
