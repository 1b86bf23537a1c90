"""Decoding records, against aiokafka's builder and with every truncation."""

import pytest
from aiokafka.record.default_records import (  # type: ignore[import-untyped]
    DefaultRecordBatchBuilder,
)

from highwater.kafka.errors import DecodeError, RecordsError
from highwater.kafka.records.batch import BASE_TIMESTAMP_AT, RecordBatchView, iter_batches
from highwater.kafka.records.builder import RecordBatchBuilder, encode_record
from highwater.kafka.records.record import (
    RawRecord,
    Record,
    first_with_timestamp,
    iter_raw_records,
    read_records,
)

MIB = 1024 * 1024


@pytest.mark.parametrize("codec", range(5))
def test_reads_what_aiokafka_wrote(codec: int) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=MIB,
    )
    builder.append(0, 1_000, b"k", b"v", [("trace", b"1"), ("empty", b"")])
    builder.append(1, 900, None, b"x" * 300, [])
    builder.append(2, 1_500, b"tombstone", None, [])
    (batch,) = iter_batches(bytes(builder.build()))
    assert list(read_records(batch, MIB)) == [
        Record(0, 1_000, b"k", b"v", (("trace", b"1"), ("empty", b""))),
        Record(1, 900, None, b"x" * 300),
        Record(2, 1_500, b"tombstone", None),
    ]


def test_log_append_time_gives_every_record_the_same_timestamp() -> None:
    builder = RecordBatchBuilder(log_append_time_ms=5_000, base_offset=40)
    builder.append(key=None, value=b"a", timestamp_ms=1)
    builder.append(key=None, value=b"b", timestamp_ms=2)
    (batch,) = iter_batches(builder.build())
    assert [(r.offset, r.timestamp) for r in read_records(batch, MIB)] == [(40, 5_000), (41, 5_000)]


def test_every_truncation_of_a_payload_is_an_error() -> None:
    payload = encode_record(0, 5, b"key", b"value", [("h", b"1"), ("n", None)]) + encode_record(
        1, 6, None, None
    )
    assert list(iter_raw_records(payload, 2)) == [
        RawRecord(0, 5, b"key", b"value", (("h", b"1"), ("n", None))),
        RawRecord(1, 6, None, None, ()),
    ]
    for cut in range(len(payload)):
        with pytest.raises(RecordsError):
            list(iter_raw_records(payload[:cut], 2))


def test_wrong_counts_are_errors() -> None:
    payload = encode_record(0, 0, b"k", b"v") * 2
    for count in (-1, 0, 1, 3, 10**9):
        with pytest.raises(RecordsError):
            list(iter_raw_records(payload, count))


@pytest.mark.parametrize(
    "record",
    [
        bytes([0x0C, 0, 0, 0, 0x03, 0x01, 0x00]),  # key of length -2
        bytes([0x0C, 0, 0, 0, 0x01, 0x04, 0x00]),  # value runs past the record
        bytes([0x0E, 0, 0, 0, 0x01, 0x01, 0x00, 0x00]),  # a byte left over
        bytes([0x0E, 0, 0, 0, 0x01, 0x01, 0x02, 0x01]),  # header with a null name
        bytes([0x0E, 0, 0, 0, 0x01, 0x01, 0x01, 0x00]),  # header count -1
        bytes([0x12, 0, 0, 0, 0x01, 0x01, 0x02, 0x02, 0xFF, 0x01]),  # header name not UTF-8
        bytes([0x14, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]),
    ],
)
def test_malformed_records(record: bytes) -> None:
    with pytest.raises(RecordsError):
        list(iter_raw_records(record, 1))


@pytest.mark.parametrize("stamped", [None, 1_700])
@pytest.mark.parametrize("codec", range(5))
def test_the_first_record_with_a_timestamp_is_what_decoding_all_finds(
    codec: int, stamped: int | None
) -> None:
    builder = RecordBatchBuilder(compression=codec, base_offset=40, log_append_time_ms=stamped)
    for number, timestamp in enumerate((1_500, 900, 1_600, 1_600, 2_000)):
        headers = [("name", b"x" * 200)] * number
        key = None if number % 2 else b"k" * 100
        builder.append(
            key=key, value=b"v", timestamp_ms=timestamp, headers=headers, offset_delta=2 * number
        )
    (batch,) = iter_batches(builder.build())
    records = list(read_records(batch, MIB))
    for timestamp in (0, 901, 1_500, 1_501, 1_601, 2_001):
        for start in range(38, 52):
            wanted = (r for r in records if r.timestamp >= timestamp and r.offset >= start)
            expected = next(((r.timestamp, r.offset) for r in wanted), None)
            assert first_with_timestamp(batch, timestamp, start, MIB) == expected


def test_a_search_in_a_malformed_batch_raises() -> None:
    builder = RecordBatchBuilder()
    for number in range(3):
        builder.append(key=None, value=b"value", timestamp_ms=number)
    whole = builder.build()
    for cut in range(62, len(whole)):
        view = RecordBatchView(whole[:cut], 0, cut)
        with pytest.raises(DecodeError):
            first_with_timestamp(view, 2, 0, MIB)


def test_timestamps_that_do_not_fit_into_64_bits_are_errors() -> None:
    builder = RecordBatchBuilder()
    for timestamp_ms in (0, 6):
        builder.append(key=None, value=b"v", timestamp_ms=timestamp_ms)
    data = bytearray(builder.build())
    data[BASE_TIMESTAMP_AT : BASE_TIMESTAMP_AT + 8] = (2**63 - 1).to_bytes(8, "big")
    (batch,) = iter_batches(data)
    with pytest.raises(RecordsError, match="does not fit into 64 bits"):
        list(read_records(batch, 1 << 20))
    with pytest.raises(RecordsError, match="does not fit into 64 bits"):
        first_with_timestamp(batch, 2**63, 0, 1 << 20)
