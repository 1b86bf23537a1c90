"""Message formats 0 and 1 against kafka-python, which writes and reads them, too."""

from types import SimpleNamespace

import kafka.codec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.errors import RecordsError
from highwater.kafka.records.batch import RecordBatchView
from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.kafka.records.down_conversion import to_message_set
from highwater.kafka.records.lz4_format_0 import xxh32_of_short
from highwater.kafka.records.message_set import iter_messages
from highwater.kafka.records.record import read_records
from highwater.kafka.records.up_conversion import to_record_batch
from highwater.kafka.records.validation import BatchProblem

SIZE_MAX = 1 << 20
CODECS = st.sampled_from([0, 1, 2, 3])
MAGICS = st.sampled_from([0, 1])
FIELDS = st.none() | st.binary(max_size=60)
TIMESTAMPS = st.integers(min_value=-1, max_value=1 << 45)
MESSAGES = st.lists(st.tuples(TIMESTAMPS, FIELDS, FIELDS), min_size=1, max_size=30)


@pytest.fixture(scope="module", autouse=True)
def _a_hash_for_kafka_python():
    """Its lz4 of format 0 wants a library of C for what is a few lines here."""

    def xxh32(data):
        return SimpleNamespace(digest=lambda: xxh32_of_short(bytes(data)).to_bytes(4, "big"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kafka.codec, "xxhash", SimpleNamespace(xxh32=xxh32))
        yield


@given(magic=MAGICS, codec=CODECS, messages=MESSAGES)
def test_a_set_of_kafka_python_becomes_a_batch(magic, codec, messages):
    builder = MemoryRecordsBuilder(magic=magic, compression_type=codec, batch_size=SIZE_MAX)
    for timestamp, key, value in messages:
        builder.append(timestamp=timestamp, key=key, value=value)
    builder.close()
    made = to_record_batch(builder.buffer(), SIZE_MAX)
    assert isinstance(made, bytes)
    batch = RecordBatchView(made, 0, len(made))
    assert batch.crc_ok()
    assert batch.compression == codec
    assert [r[:5] for r in read_records(batch, SIZE_MAX)] == [
        (n, timestamp if magic else -1, key, value, ())
        for n, (timestamp, key, value) in enumerate(messages)
    ]


@given(
    magic=MAGICS,
    codec=CODECS,
    sets=st.lists(MESSAGES, min_size=1, max_size=4),
    base=st.integers(min_value=0, max_value=1 << 40),
    stamp=st.none() | st.integers(min_value=0, max_value=1 << 45),
    gap=st.integers(min_value=1, max_value=5),
)
def test_kafka_python_reads_what_becomes_of_batches(magic, codec, sets, base, stamp, gap):
    batches, expected, offset = b"", [], base
    for messages in sets:
        builder = RecordBatchBuilder(
            compression=codec, base_offset=offset, log_append_time_ms=stamp
        )
        for n, (timestamp, key, value) in enumerate(messages):
            builder.append(
                key=key,
                value=value,
                timestamp_ms=timestamp,
                offset_delta=n * gap,
                headers=[("h", b"")],
            )
            told = timestamp if stamp is None else stamp
            expected.append((offset + n * gap, told if magic else None, key, value))
        batches += builder.build()
        offset += len(messages) * gap
    made = to_message_set(
        batches, magic, fetch_offset=base, size_max=SIZE_MAX, decompressed_size_max=SIZE_MAX
    )
    assert made.error == ErrorCode.NONE
    assert made.next_offset == expected[-1][0] + 1
    records = MemoryRecords(made.messages)
    found = []
    while (batch := records.next_batch()) is not None:
        assert batch.validate_crc()
        for record in batch:
            assert record.validate_crc()
            found.append((record.offset, record.timestamp, record.key, record.value))
            assert record.timestamp_type == (None if not magic else int(stamp is not None))
    assert found == expected


@given(magic=MAGICS, codec=CODECS, messages=MESSAGES)
def test_there_and_back(magic, codec, messages):
    builder = RecordBatchBuilder(compression=codec)
    for timestamp, key, value in messages:
        builder.append(key=key, value=value, timestamp_ms=timestamp)
    batch = builder.build()
    old = to_message_set(
        batch, magic, fetch_offset=0, size_max=SIZE_MAX, decompressed_size_max=SIZE_MAX
    )
    back = to_record_batch(old.messages, SIZE_MAX)
    assert isinstance(back, bytes)
    if magic:
        assert back == batch
    else:
        assert [r[2:] for r in read_records(RecordBatchView(back, 0, len(back)), SIZE_MAX)] == [
            r[2:] for r in read_records(RecordBatchView(batch, 0, len(batch)), SIZE_MAX)
        ]


@given(data=st.binary(max_size=200), magic=MAGICS)
def test_bytes_that_say_nothing_do_no_harm(data, magic):
    framed = bytes(8) + len(data).to_bytes(4, "big") + data
    for bad in (data, framed):
        assert isinstance(to_record_batch(bad, SIZE_MAX), bytes | BatchProblem)
        to_message_set(bad, magic, fetch_offset=0, size_max=99, decompressed_size_max=99)
        try:
            list(iter_messages(bad))
        except RecordsError:
            continue
