"""Built batches decode to the same records, for any records and codec."""

from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from highwater.kafka.records.batch import (
    RecordBatchView,
    crc_ok,
    iter_batches,
    restamp_log_append_time,
    set_base_offset_and_epoch,
)
from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.kafka.records.recompress import recompress
from highwater.kafka.records.record import Record, read_records
from highwater.kafka.records.validation import RecordsSummary, validate_deep, validate_header

MIB = 1024 * 1024
TIMESTAMPS = st.integers(0, 2**62)
CONTENT = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=20), CONTENT), max_size=4).map(tuple)
RECORDS = st.lists(st.tuples(TIMESTAMPS, CONTENT, CONTENT, HEADERS), min_size=1, max_size=20)


def build(records, **options) -> bytes:
    builder = RecordBatchBuilder(**options)
    for timestamp, key, value, headers in records:
        builder.append(key=key, value=value, timestamp_ms=timestamp, headers=headers)
    return builder.build()


@settings(max_examples=150, deadline=None)
@given(
    records=RECORDS,
    compression=st.integers(0, 4),
    base_offset=st.integers(0, 2**62),
    data=st.data(),
)
def test_round_trip(records, compression: int, base_offset: int, data) -> None:
    producer_id = data.draw(st.integers(-1, 2**62))
    batch_bytes = build(
        records,
        compression=compression,
        base_offset=base_offset,
        producer_id=producer_id,
        base_sequence=0,
    )
    assert validate_header(batch_bytes, 0, len(batch_bytes)) is None
    (batch,) = iter_batches(batch_bytes)
    assert list(read_records(batch, MIB)) == [
        Record(base_offset + index, *record) for index, record in enumerate(records)
    ]
    summary = validate_deep(batch, decompressed_size_max=MIB)
    assert isinstance(summary, RecordsSummary)
    assert summary.max_timestamp == max(record[0] for record in records)
    assert records[summary.offset_delta_of_max_timestamp][0] == summary.max_timestamp


@settings(max_examples=100, deadline=None)
@given(records=RECORDS, offset=st.integers(0, 2**63 - 1), epoch=st.integers(0, 2**31 - 1))
def test_patches_keep_the_checksum_right(records, offset: int, epoch: int) -> None:
    data = bytearray(build(records))
    set_base_offset_and_epoch(data, 0, offset, epoch)
    assert crc_ok(data, 0, len(data))
    restamp_log_append_time(data, 0, len(data), 123)
    assert crc_ok(data, 0, len(data))
    view = RecordBatchView(data, 0, len(data))
    assert (view.base_offset, view.leader_epoch, view.max_timestamp) == (offset, epoch, 123)


@settings(max_examples=100, deadline=None)
@given(batches=st.lists(RECORDS, min_size=1, max_size=5), cut=st.integers(0, 10_000))
def test_any_cut_of_a_log_leaves_its_whole_batches(batches, cut: int) -> None:
    encoded = [build(records) for records in batches]
    log = b"".join(encoded)[:cut]
    ends = [sum(map(len, encoded[: index + 1])) for index in range(len(encoded))]
    assert [view.end for view in iter_batches(log)] == [end for end in ends if end <= len(log)]


@settings(max_examples=150, deadline=None)
@given(records=RECORDS, source=st.integers(0, 4), to=st.integers(0, 4))
def test_a_batch_in_another_codec_has_the_same_records(records, source: int, to: int) -> None:
    """For kafka-python, too."""
    sent = build(records, compression=source, base_offset=7, producer_id=3, base_sequence=0)
    made = recompress(RecordBatchView(sent, 0, len(sent)), to, decompressed_size_max=MIB)
    assert made == build(records, compression=to, base_offset=7, producer_id=3, base_sequence=0)
    (view,) = iter_batches(made)
    assert list(read_records(view, MIB)) == list(
        read_records(RecordBatchView(sent, 0, len(sent)), MIB)
    )
    read = MemoryRecords(bytes(made)).next_batch()
    assert read.validate_crc()
    assert read.compression_type == to
    assert [
        (record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in read
    ] == [(7 + index, *record) for index, record in enumerate(records)]
