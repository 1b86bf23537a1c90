"""Other clients read the batches that we build."""

import pytest
from aiokafka.record.memory_records import (  # type: ignore[import-untyped]
    MemoryRecords as AiokafkaRecords,
)
from kafka.record.memory_records import MemoryRecords  # type: ignore[import-untyped]

from highwater.kafka.errors import EncodeError
from highwater.kafka.records.batch import TRANSACTIONAL_BIT, is_control, iter_batches, read_header
from highwater.kafka.records.builder import RecordBatchBuilder, end_transaction_marker
from highwater.kafka.records.record import read_records


@pytest.mark.parametrize("codec", range(5))
def test_aiokafka_reads_our_batch(codec: int) -> None:
    builder = RecordBatchBuilder(compression=codec, base_offset=1_000, leader_epoch=3)
    for index in range(20):
        delta = builder.append(
            key=b"k%d" % index,
            value=b"v" * index,
            timestamp_ms=5_000 - index,
            headers=[("a", b"b"), ("null", None)],
        )
        assert delta == index
    data = builder.build()
    batch = AiokafkaRecords(data).next_batch()
    assert batch.validate_crc()
    records = list(batch)
    assert [record.offset for record in records] == list(range(1_000, 1_020))
    assert [record.timestamp for record in records] == [5_000 - index for index in range(20)]
    assert records[7].value == b"v" * 7
    assert records[7].headers == [("a", b"b"), ("null", None)]
    assert builder.record_count == 20


def test_idempotent_fields_and_size() -> None:
    builder = RecordBatchBuilder(
        producer_id=1 << 40, producer_epoch=7, base_sequence=2**31 - 1, transactional=True
    )
    builder.append(key=None, value=b"v", timestamp_ms=1)
    data = builder.build()
    header = read_header(data)
    assert len(data) == builder.size_uncompressed
    assert (header.producer_id, header.producer_epoch) == (1 << 40, 7)
    assert header.base_sequence == 2**31 - 1
    assert header.attributes & TRANSACTIONAL_BIT


def test_gaps_are_kept_and_going_back_is_refused() -> None:
    builder = RecordBatchBuilder(base_offset=10)
    builder.append(key=b"a", value=b"1", timestamp_ms=1, offset_delta=2)
    builder.append(key=b"b", value=b"2", timestamp_ms=1, offset_delta=9)
    with pytest.raises(EncodeError):
        builder.append(key=b"c", value=b"3", timestamp_ms=1, offset_delta=9)
    (batch,) = iter_batches(builder.build())
    assert [record.offset for record in read_records(batch, 1_000)] == [12, 19]
    assert (batch.record_count, batch.last_offset) == (2, 19)


def test_an_empty_batch_cannot_be_built() -> None:
    with pytest.raises(EncodeError):
        RecordBatchBuilder().build()


@pytest.mark.parametrize("commit", [True, False])
def test_end_transaction_marker(commit: bool) -> None:
    data = end_transaction_marker(
        commit=commit, producer_id=9, producer_epoch=1, coordinator_epoch=6, timestamp_ms=77
    )
    (batch,) = MemoryRecords(data)
    (record,) = list(batch)
    assert batch.is_control_batch
    assert (record.abort, record.commit) == (not commit, commit)
    assert is_control(read_header(data).attributes)
    (ours,) = read_records(next(iter_batches(data)), 100)
    assert ours.value == b"\0\0\0\0\0\x06"


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("coordinator_epoch", [0, -1, 2**31 - 1])
def test_a_marker_is_the_batch_that_a_builder_makes(commit: bool, coordinator_epoch: int) -> None:
    builder = RecordBatchBuilder(
        base_offset=2**40,
        leader_epoch=4,
        producer_id=2**50,
        producer_epoch=32767,
        transactional=True,
        control=True,
    )
    builder.append(
        key=bytes((0, 0, 0, commit)),
        value=b"\0\0" + coordinator_epoch.to_bytes(4, "big", signed=True),
        timestamp_ms=1_700_000_000_000,
    )
    assert builder.build() == end_transaction_marker(
        commit=commit,
        producer_id=2**50,
        producer_epoch=32767,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=1_700_000_000_000,
        base_offset=2**40,
        leader_epoch=4,
    )
