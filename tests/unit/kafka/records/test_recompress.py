import pytest

from highwater.kafka.errors import CorruptCompressedDataError, DecompressedTooLargeError
from highwater.kafka.records.batch import (
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    RecordBatchView,
    iter_batches,
)
from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.kafka.records.compression import Compression
from highwater.kafka.records.recompress import recompress

MIB = 1 << 20


def a_batch(compression: Compression, *, log_append_time_ms: int | None = None) -> bytes:
    builder = RecordBatchBuilder(
        compression=compression,
        base_offset=40,
        leader_epoch=3,
        producer_id=9,
        producer_epoch=1,
        base_sequence=5,
        transactional=True,
        log_append_time_ms=log_append_time_ms,
    )
    for number in range(3):
        builder.append(key=None, value=b"value " * 50, timestamp_ms=1000 + number)
    return builder.build()


def view_of(batch: bytes | bytearray) -> RecordBatchView:
    return RecordBatchView(batch, 0, len(batch))


@pytest.mark.parametrize("to", list(Compression))
@pytest.mark.parametrize("source", list(Compression))
def test_a_batch_is_as_if_built_in_the_codec(source: Compression, to: Compression) -> None:
    made = recompress(view_of(a_batch(source)), to, decompressed_size_max=MIB)
    assert made == a_batch(to)


def test_other_attributes_stay() -> None:
    sent = a_batch(Compression.ZSTD, log_append_time_ms=7)
    made = recompress(view_of(sent), Compression.NONE, decompressed_size_max=MIB)
    (view,) = iter_batches(made)
    assert view.attributes == TRANSACTIONAL_BIT | LOG_APPEND_TIME_BIT
    assert view.max_timestamp == 7
    assert view.crc_ok()


def test_the_batch_may_lie_anywhere_in_a_buffer() -> None:
    batch = a_batch(Compression.GZIP)
    view = RecordBatchView(memoryview(b"###" + batch + b"###"), 3, 3 + len(batch))
    made = recompress(view, Compression.LZ4, decompressed_size_max=MIB)
    assert made == a_batch(Compression.LZ4)


def test_limits_and_unreadable_records() -> None:
    view = view_of(a_batch(Compression.GZIP))
    with pytest.raises(DecompressedTooLargeError):
        recompress(view, Compression.NONE, decompressed_size_max=100)
    broken = bytearray(a_batch(Compression.ZSTD))
    broken[61:] = b"?" * (len(broken) - 61)
    with pytest.raises(CorruptCompressedDataError):
        recompress(view_of(broken), Compression.NONE, decompressed_size_max=MIB)


@pytest.mark.parametrize(
    ("codec", "low", "high"),
    [(Compression.GZIP, 1, 9), (Compression.LZ4, 1, 17), (Compression.ZSTD, -1000, 19)],
)
def test_levels(codec: Compression, low: int, high: int) -> None:
    builder = RecordBatchBuilder()
    for number in range(3000):
        value = b"%d %d %d" % (number, number * 7919 % 1000, number % 17)
        builder.append(key=None, value=value, timestamp_ms=0)
    view = view_of(builder.build())
    fast, small = (
        recompress(view, codec, level, decompressed_size_max=MIB) for level in (low, high)
    )
    assert len(small) < len(fast)
    for made in (fast, small):
        assert recompress(view_of(made), 0, decompressed_size_max=MIB) == view.buf
