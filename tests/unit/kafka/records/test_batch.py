"""Header access and in-place patches of batches that kafka-python wrote."""

from itertools import pairwise

import pytest
from kafka.record.memory_records import (  # type: ignore[import-untyped]
    MemoryRecords,
    MemoryRecordsBuilder,
)

from highwater.kafka.errors import RecordsError
from highwater.kafka.records import batch as b
from highwater.kafka.records.builder import RecordBatchBuilder


def foreign_batch(count: int = 3) -> bytes:
    builder = MemoryRecordsBuilder(
        2, 0, 1 << 20, transactional=True, producer_id=77, producer_epoch=5, base_sequence=9
    )
    for index in range(count):
        builder.append(1_000 + index, b"key", b"value %d" % index)
    builder.close()
    return bytes(builder.buffer())


def test_header_of_a_foreign_batch() -> None:
    data = foreign_batch()
    header = b.read_header(data)
    assert header.base_offset == 0
    assert header.batch_length == len(data) - b.LENGTH_OVERHEAD
    assert header.magic == b.MAGIC
    assert header.attributes & b.TRANSACTIONAL_BIT
    assert not b.is_control(header.attributes)
    assert not b.is_log_append_time(header.attributes)
    assert b.compression_of(header.attributes) == 0
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 5, 9)
    assert (header.base_timestamp, header.max_timestamp) == (1_000, 1_002)
    assert (header.last_offset_delta, header.record_count) == (2, 3)


def test_named_offsets_point_at_their_fields() -> None:
    values = (101, 202, 303, 2, 404, 505, 606, 707, 808, 909, 1010, 1111, 1212)
    data = b.BATCH_HEADER.pack(*values)
    positions = (
        b.BASE_OFFSET_AT,
        b.BATCH_LENGTH_AT,
        b.LEADER_EPOCH_AT,
        b.MAGIC_AT,
        b.CRC_AT,
        b.ATTRIBUTES_AT,
        b.LAST_OFFSET_DELTA_AT,
        b.BASE_TIMESTAMP_AT,
        b.MAX_TIMESTAMP_AT,
        b.PRODUCER_ID_AT,
        b.PRODUCER_EPOCH_AT,
        b.BASE_SEQUENCE_AT,
        b.RECORD_COUNT_AT,
        b.HEADER_SIZE,
    )
    read = [int.from_bytes(data[start:stop], "big") for start, stop in pairwise(positions)]
    assert read == list(values)


def test_crc_ok_and_every_flipped_byte_behind_the_crc_field_is_seen() -> None:
    data = bytearray(foreign_batch(1))
    assert b.crc_ok(data, 0, len(data))
    for position in range(b.CRC_AT, len(data)):
        data[position] ^= 1
        assert not b.crc_ok(data, 0, len(data))
        data[position] ^= 1


def test_crc_ok_is_false_for_what_cannot_be_a_batch() -> None:
    data = foreign_batch()
    assert not b.crc_ok(data, 0, 60)
    assert not b.crc_ok(data, 0, len(data) + 1)


def test_base_offset_and_epoch_are_patched_without_breaking_the_crc() -> None:
    data = bytearray(b"xx" + foreign_batch())
    b.set_base_offset_and_epoch(data, 2, 1 << 40, 12)
    view = b.RecordBatchView(data, 2, len(data))
    assert (view.base_offset, view.leader_epoch, view.last_offset) == (1 << 40, 12, (1 << 40) + 2)
    assert view.crc_ok()
    offsets = [record.offset for batch in MemoryRecords(bytes(data[2:])) for record in batch]
    assert offsets == [1 << 40, (1 << 40) + 1, (1 << 40) + 2]


def test_patched_prefix_equals_the_patch_in_place() -> None:
    data = bytearray(foreign_batch())
    prefix = b.patched_prefix(b.read_header(data).batch_length, 55, 66)
    b.set_base_offset_and_epoch(memoryview(data), 0, 55, 66)
    assert prefix == data[:16]


def test_restamp_sets_type_timestamp_and_crc() -> None:
    data = bytearray(foreign_batch())
    b.restamp_log_append_time(data, 0, len(data), 123_456)
    view = b.RecordBatchView(data, 0, len(data))
    assert view.crc_ok()
    assert b.is_log_append_time(view.attributes)
    assert view.header().base_timestamp == 1_000
    assert view.max_timestamp == 123_456
    stamps = {record.timestamp for batch in MemoryRecords(bytes(data)) for record in batch}
    assert stamps == {123_456}


def test_a_copy_without_log_append_time_is_a_producers_again() -> None:
    data = bytearray(foreign_batch())
    before = bytes(data)
    assert b.without_log_append_time(memoryview(data)) == before
    b.restamp_log_append_time(data, 0, len(data), 123_456)
    stamped = bytes(data)
    copy = b.without_log_append_time(data)
    assert data == stamped
    expected = bytearray(before)
    b.correct_max_timestamp(expected, 0, len(expected), 123_456)
    assert copy == expected, "but for the largest timestamp"
    assert b.without_log_append_time(memoryview(b"short")) == b"short"


def test_view_properties_agree_with_the_header() -> None:
    data = b"pad" + foreign_batch()
    view = b.RecordBatchView(memoryview(data), 3, len(data))
    header = view.header()
    assert view.size == len(data) - 3
    assert view.attributes == header.attributes
    assert view.compression == 0
    assert view.base_timestamp == header.base_timestamp == 1_000
    assert view.max_timestamp == header.max_timestamp
    assert view.producer_id == header.producer_id
    assert view.record_count == header.record_count
    assert bytes(view.payload) == data[3 + b.HEADER_SIZE :]
    assert "offsets 0..2" in repr(view)


@pytest.mark.parametrize("cut", range(0, 200, 7))
def test_iter_batches_stops_before_a_partial_batch(cut: int) -> None:
    one, two = foreign_batch(2), foreign_batch(1)
    data = (one + two)[: len(one) + min(cut, len(two) - 1)]
    views = list(b.iter_batches(data))
    assert [(view.start, view.end) for view in views] == [(0, len(one))]


def test_iter_batches_walks_a_region() -> None:
    one, two = foreign_batch(2), foreign_batch(5)
    data = b"..." + one + two + one
    views = list(b.iter_batches(data, 3, 3 + len(one) + len(two)))
    assert [view.record_count for view in views] == [2, 5]


@pytest.mark.parametrize("length", [-1, 0, 48, -(2**31)])
def test_iter_batches_refuses_impossible_lengths(length: int) -> None:
    data = bytearray(foreign_batch())
    data[b.BATCH_LENGTH_AT : b.BATCH_LENGTH_AT + 4] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(RecordsError, match="length"):
        list(b.iter_batches(data))


def test_iter_batches_refuses_other_magic() -> None:
    data = bytearray(foreign_batch())
    data[b.MAGIC_AT] = 1
    with pytest.raises(RecordsError, match="magic 1"):
        list(b.iter_batches(data))


def test_read_header_of_too_few_bytes() -> None:
    with pytest.raises(RecordsError):
        b.read_header(bytes(60))
    with pytest.raises(RecordsError):
        b.read_header(bytes(100), -1)


def test_control_and_stamped_attributes() -> None:
    builder = RecordBatchBuilder(control=True, log_append_time_ms=7)
    builder.append(key=b"k", value=None, timestamp_ms=3)
    view = next(b.iter_batches(builder.build()))
    assert b.is_control(view.attributes)
    assert b.is_log_append_time(view.attributes)
    assert view.max_timestamp == 7
