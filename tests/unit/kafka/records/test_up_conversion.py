"""Message sets of producers become record batches."""

import gzip
import struct
import zlib

import cramjam
import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import RecordBatchView
from highwater.kafka.records.compression import Compression, compress
from highwater.kafka.records.message_set import append_message
from highwater.kafka.records.record import read_records
from highwater.kafka.records.up_conversion import to_record_batch
from highwater.kafka.records.validation import BatchProblem, validate_deep, validate_header
from tests.unit.kafka.records.old_sets import (
    CODECS,
    JAVA_0_9,
    JAVA_0_10_FORMAT_0,
    JAVA_0_10_FORMAT_1,
    JAVA_0_10_STAMPED,
    TIMESTAMPS,
)

SIZE_MAX = 1 << 20


def set_of(*messages, magic=1):
    """`messages` are (key, value) or (key, value, attributes)."""
    out = bytearray()
    for n, (key, value, *attributes) in enumerate(messages):
        append_message(
            out,
            magic=magic,
            offset=n,
            attributes=attributes[0] if attributes else 0,
            timestamp=1000 + n,
            key=key,
            value=value,
        )
    return bytes(out)


def batch_of(message_set):
    """The view of a batch that a leader accepts from a producer."""
    made = to_record_batch(message_set, SIZE_MAX)
    assert not isinstance(made, BatchProblem), made
    assert validate_header(made, 0, len(made)) is None
    view = RecordBatchView(made, 0, len(made))
    assert not isinstance(validate_deep(view, decompressed_size_max=SIZE_MAX), BatchProblem)
    return view


def records_of(message_set):
    return [
        (r.offset, r.timestamp, r.key, r.value, r.headers)
        for r in read_records(batch_of(message_set), SIZE_MAX)
    ]


def problem_of(message_set, size_max=SIZE_MAX):
    problem = to_record_batch(message_set, size_max)
    assert isinstance(problem, BatchProblem)
    return problem.error


@pytest.mark.parametrize("codec", CODECS)
def test_sets_of_kafka_0_9(codec):
    made = bytes.fromhex(JAVA_0_9[codec])
    assert records_of(made) == [(0, -1, b"k", b"one", ()), (1, -1, None, b"two", ())]
    header = batch_of(made).header()
    assert header.attributes == CODECS[codec]
    assert (header.base_timestamp, header.max_timestamp) == (-1, -1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)


@pytest.mark.parametrize("codec", CODECS)
def test_sets_of_kafka_0_10(codec):
    first, second = TIMESTAMPS
    made = bytes.fromhex(JAVA_0_10_FORMAT_1[codec])
    assert records_of(made) == [(0, first, b"k", b"one", ()), (1, second, None, b"two", ())]
    header = batch_of(made).header()
    assert header.attributes == CODECS[codec]
    assert (header.base_timestamp, header.max_timestamp) == TIMESTAMPS


@pytest.mark.parametrize("codec", JAVA_0_10_FORMAT_0)
def test_format_0_of_kafka_0_10(codec):
    made = bytes.fromhex(JAVA_0_10_FORMAT_0[codec])
    assert [r[2:4] for r in records_of(made)] == [(b"k", b"one"), (None, b"two")]


def test_snappy_may_be_one_raw_block():
    inner = set_of((b"k", b"one"), (b"k", b"two"), magic=0)
    raw = bytes(cramjam.snappy.compress_raw(inner))
    wrapped = set_of((None, raw, Compression.SNAPPY), magic=0)
    assert [r[3] for r in records_of(wrapped)] == [b"one", b"two"]


def test_a_wrapper_may_have_offset_0():
    inner = set_of((b"k", b"one"), (b"k", b"two"))
    wrapped = set_of((None, gzip.compress(inner), Compression.GZIP))
    assert [r[:2] for r in records_of(wrapped)] == [(0, 1000), (1, 1001)]


def test_the_newest_timestamp_need_not_be_the_last():
    out = bytearray()
    for timestamp in (5, 9, -1, 7):
        append_message(
            out, magic=1, offset=0, attributes=0, timestamp=timestamp, key=None, value=b""
        )
    assert [r[1] for r in records_of(bytes(out))] == [5, 9, -1, 7]
    assert batch_of(bytes(out)).max_timestamp == 9


def test_a_message_that_is_cut_off_is_left_out():
    whole = set_of((b"k", b"one"), (b"k", b"two"))
    assert len(records_of(whole[:-1])) == 1
    assert problem_of(whole[:20]) == ErrorCode.INVALID_RECORD
    assert problem_of(b"") == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("stamped", JAVA_0_10_STAMPED.values())
def test_producers_may_not_set_log_append_time(stamped):
    assert problem_of(bytes.fromhex(stamped)) == ErrorCode.INVALID_TIMESTAMP


def test_a_wrong_checksum_is_corrupt_outside_and_inside():
    inner = bytearray(set_of((b"k", b"one")))
    inner[-1] ^= 1
    assert problem_of(bytes(inner)) == ErrorCode.CORRUPT_MESSAGE
    wrapped = set_of((None, gzip.compress(inner), Compression.GZIP))
    assert problem_of(wrapped) == ErrorCode.CORRUPT_MESSAGE


def test_data_that_cannot_be_decompressed_is_corrupt():
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4):
        for magic in (0, 1):
            wrapped = set_of((None, b"nonsense, not compressed", codec), magic=magic)
            assert problem_of(wrapped) == ErrorCode.CORRUPT_MESSAGE


ONE = set_of((b"k", b"one"))


def gzipped(data):
    """The same bytes at any time: they are in the names of tests."""
    return gzip.compress(data, mtime=0)


@pytest.mark.parametrize(
    "message_set",
    [
        ONE + set_of((b"k", b"one"), magic=0),
        ONE + set_of((None, gzipped(ONE), 1)),
        set_of((None, gzipped(ONE), 1)) + ONE,
        set_of((None, gzipped(ONE), 1), (None, gzipped(ONE), 1)),
        set_of((None, gzipped(set_of((None, gzipped(ONE), 1))), 1)),
        set_of((None, gzipped(set_of((b"k", b"one"), magic=0)), 1)),
        set_of((None, None, 1)),
        set_of((None, gzipped(b""), 1)),
    ],
)
def test_sets_that_kafka_calls_invalid(message_set):
    assert problem_of(message_set) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [4, 5, 7])
def test_codecs_that_the_formats_do_not_have(codec):
    wrapped = set_of((None, compress(Compression.ZSTD, ONE), codec))
    assert problem_of(wrapped) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_a_bomb_stops_at_the_limit():
    bomb = set_of((None, gzip.compress(bytes(1 << 20)), Compression.GZIP))
    assert problem_of(bomb, size_max=1000) == ErrorCode.MESSAGE_TOO_LARGE


def test_every_bit_of_a_compressed_set_may_be_wrong():
    good = bytes.fromhex(JAVA_0_9["lz4"])
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 1
        # Past the checksum: decompressors and inner sets meet the damage, too.
        bad[12:16] = struct.pack(">I", zlib.crc32(bad[16:]))
        made = to_record_batch(bad, SIZE_MAX)
        assert isinstance(made, BatchProblem | bytes)
