"""Record batches become message sets for old consumers."""

import tracemalloc

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import (
    BASE_TIMESTAMP_AT,
    CRC_AT,
    HEADER_SIZE,
    crc_of,
)
from highwater.kafka.records.builder import RecordBatchBuilder, end_transaction_marker
from highwater.kafka.records.compression import Compression, decompress
from highwater.kafka.records.down_conversion import NOTHING_READ, to_message_set
from highwater.kafka.records.lz4_format_0 import decompress_lz4
from highwater.kafka.records.message_set import iter_messages
from tests.unit.kafka.records.old_sets import (
    CODECS,
    JAVA_0_10_FORMAT_0,
    JAVA_0_10_FORMAT_1,
    JAVA_0_10_STAMPED,
    LOG_APPEND_TIME,
    TIMESTAMPS,
)

SIZE_MAX = 1 << 20
MAGICS = pytest.mark.parametrize("magic", [0, 1])


def batch(*values, base_offset=10, deltas=None, **settings):
    """A batch with a header in each record, which old formats do not have."""
    builder = RecordBatchBuilder(base_offset=base_offset, **settings)
    for n, value in enumerate(values):
        builder.append(
            key=b"k%d" % n,
            value=value,
            timestamp_ms=1000 + n,
            headers=[("h", b"x")],
            offset_delta=deltas[n] if deltas else None,
        )
    return builder.build()


def of_java(codec, stamped=False):
    """The batch of which Kafka would make the sets of `old_sets`."""
    builder = RecordBatchBuilder(
        compression=codec,
        base_offset=10,
        log_append_time_ms=LOG_APPEND_TIME if stamped else None,
    )
    builder.append(key=b"k", value=b"one", timestamp_ms=TIMESTAMPS[0])
    builder.append(key=None, value=b"two", timestamp_ms=TIMESTAMPS[1])
    return builder.build()


def converted(batches, magic, fetch_offset=0, size_max=SIZE_MAX, decompressed_size_max=SIZE_MAX):
    return to_message_set(
        batches,
        magic,
        fetch_offset=fetch_offset,
        size_max=size_max,
        decompressed_size_max=decompressed_size_max,
    )


def inner_of(message):
    codec = message.attributes & 7
    if codec == Compression.LZ4 and message.magic == 0:
        return bytes(decompress_lz4(message.value, SIZE_MAX))
    return bytes(decompress(codec, message.value, SIZE_MAX))


def told(batches, magic, **limits):
    """(offset, value) of all messages, as a consumer counts them."""
    found = []
    for message in iter_messages(converted(batches, magic, **limits).messages):
        if not message.attributes & 7:
            found.append((message.offset, message.value and bytes(message.value)))
            continue
        inner = list(iter_messages(inner_of(message)))
        base = message.offset - inner[-1].offset
        assert magic == 1 or base == 0
        found += [(base + m.offset, m.value and bytes(m.value)) for m in inner]
    return found


def test_the_bytes_that_kafka_writes():
    assert converted(of_java(0), 0).messages.hex() == JAVA_0_10_FORMAT_0["none"]
    assert converted(of_java(0), 1).messages.hex() == JAVA_0_10_FORMAT_1["none"]
    assert converted(of_java(0, stamped=True), 1).messages.hex() == JAVA_0_10_STAMPED["none"]


def assert_same_wrapper(made, expected):
    [ours] = iter_messages(made.messages)
    [theirs] = iter_messages(bytes.fromhex(expected))
    assert ours[:4] == theirs[:4]  # Offset, format, attributes, timestamp.
    assert ours.key is theirs.key is None
    assert inner_of(ours) == inner_of(theirs)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_compressed_sets_of_format_1_say_what_kafkas_say(codec):
    assert_same_wrapper(converted(of_java(CODECS[codec]), 1), JAVA_0_10_FORMAT_1[codec])


def test_compressed_sets_of_format_0_have_absolute_offsets():
    assert_same_wrapper(converted(of_java(Compression.LZ4), 0), JAVA_0_10_FORMAT_0["lz4"])


def test_log_append_time_is_in_the_wrapper_and_inside():
    made = converted(of_java(Compression.SNAPPY, stamped=True), 1)
    assert_same_wrapper(made, JAVA_0_10_STAMPED["snappy"])


@MAGICS
@pytest.mark.parametrize("codec", CODECS.values())
def test_offsets_keep_the_gaps_of_compaction(magic, codec):
    made = batch(b"a", b"b", None, compression=codec, deltas=[0, 4, 9])
    assert told(made, magic) == [(10, b"a"), (14, b"b"), (19, None)]
    assert converted(made, magic).next_offset == 20


@MAGICS
def test_records_before_the_offset_are_left_out_unless_compressed(magic):
    plain = batch(b"a", b"b", b"c")
    packed = batch(b"a", b"b", b"c", compression=Compression.GZIP)
    assert told(plain, magic, fetch_offset=11) == [(11, b"b"), (12, b"c")]
    assert told(packed, magic, fetch_offset=11) == [(10, b"a"), (11, b"b"), (12, b"c")]


@MAGICS
def test_transactions_are_told_without_their_markers(magic):
    marker = {"producer_id": 7, "producer_epoch": 0, "coordinator_epoch": 0, "timestamp_ms": 1}
    aborted = batch(b"a", transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
    end = end_transaction_marker(commit=False, base_offset=11, **marker)
    other = batch(b"b", base_offset=12)
    assert told(aborted + end + other, magic) == [(10, b"a"), (12, b"b")]
    assert converted(end, magic) == (b"", 12, ErrorCode.NONE)


@MAGICS
def test_a_batch_that_is_cut_off_is_left_out(magic):
    first, second = batch(b"a"), batch(b"b", base_offset=11)
    assert told(first + second[:-1], magic) == [(10, b"a")]
    assert converted(first[:-1], magic) == (b"", NOTHING_READ, ErrorCode.NONE)
    assert converted(b"", magic) == (b"", NOTHING_READ, ErrorCode.NONE)


@MAGICS
def test_stops_with_the_batch_that_reaches_the_size(magic):
    batches = b"".join(batch(b"x" * 100, base_offset=n) for n in range(10))
    made = converted(batches, magic, size_max=250)
    assert made.next_offset == 2
    assert len(made.messages) >= 250
    assert converted(batches, magic, size_max=1).next_offset == 1


@MAGICS
def test_zstd_is_refused_behind_what_precedes_it(magic):
    first, zstd = batch(b"a"), batch(b"b", base_offset=11, compression=Compression.ZSTD)
    assert told(first + zstd, magic) == [(10, b"a")]
    refused = (b"", NOTHING_READ, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    assert converted(zstd, magic) == refused
    assert converted(first + zstd, magic).error == ErrorCode.NONE


@MAGICS
def test_damage_gets_no_new_checksum(magic):
    first, second = batch(b"a"), bytearray(batch(b"b", base_offset=11))
    second[-3] ^= 1
    assert told(first + second, magic) == [(10, b"a")]
    assert converted(second, magic) == (b"", NOTHING_READ, ErrorCode.CORRUPT_MESSAGE)
    second[16] = 9
    assert converted(second, magic) == (b"", NOTHING_READ, ErrorCode.CORRUPT_MESSAGE)


@MAGICS
def test_a_batch_too_large_to_decompress(magic):
    made = batch(bytes(5000), compression=Compression.GZIP)
    refused = (b"", NOTHING_READ, ErrorCode.UNSUPPORTED_VERSION)
    assert converted(made, magic, decompressed_size_max=4000) == refused
    assert len(made) > HEADER_SIZE


@MAGICS
def test_a_few_bytes_with_many_records_take_bounded_memory(magic):
    """Records without key and value: as objects, and as messages, they take many times their bytes."""
    builder = RecordBatchBuilder(compression=Compression.GZIP)
    for _ in range(30_000):
        builder.append(key=None, value=None, timestamp_ms=0)
    bomb = builder.build()
    limit = 300_000
    tracemalloc.start()
    try:
        result = converted(bomb, magic, decompressed_size_max=limit)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (result.error, result.messages) == (ErrorCode.UNSUPPORTED_VERSION, b"")
    assert peak < 3 * limit
    assert not converted(bomb, magic, decompressed_size_max=4 * limit).error


@MAGICS
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_timestamps_that_overflow_are_damage(magic, codec):
    """A producer may write any delta. Nothing of the batch is told."""
    good = batch(b"a")
    bad = bytearray(batch(b"b", b"c", base_offset=11, compression=codec))
    bad[BASE_TIMESTAMP_AT : BASE_TIMESTAMP_AT + 8] = (2**63 - 1).to_bytes(8, "big")
    bad[CRC_AT : CRC_AT + 4] = crc_of(bad, 0, len(bad)).to_bytes(4, "big")
    assert converted(bad, magic).error == ErrorCode.CORRUPT_MESSAGE
    assert converted(good + bad, magic).messages == converted(good, magic).messages
