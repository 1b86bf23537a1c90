"""Each rule for a producer's batch, with a batch that breaks it."""

from collections.abc import Callable

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records import batch as b
from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.kafka.records.validation import (
    BatchProblem,
    RecordsSummary,
    validate_deep,
    validate_header,
)

MIB = 1024 * 1024


def good(**options: int) -> bytearray:
    builder = RecordBatchBuilder(**options)  # type: ignore[arg-type]
    for index in range(3):
        builder.append(key=b"k", value=b"v", timestamp_ms=100 + index)
    return bytearray(builder.build())


def put(data: bytearray, position: int, width: int, value: int) -> bytearray:
    """Overwrite a header field and correct the CRC."""
    data[position : position + width] = value.to_bytes(width, "big", signed=value < 0)
    crc = b.crc_of(data, 0, len(data))
    data[b.CRC_AT : b.CRC_AT + 4] = crc.to_bytes(4, "big")
    return data


@pytest.mark.parametrize("codec", range(5))
def test_good_batches_pass(codec: int) -> None:
    data = b"prefix" + good(compression=codec, producer_id=5, base_sequence=0)
    assert validate_header(memoryview(data), 6, len(data)) is None


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        (lambda: good()[:60], ErrorCode.CORRUPT_MESSAGE),
        (lambda: good()[:-1], ErrorCode.CORRUPT_MESSAGE),
        (lambda: good() + good(), ErrorCode.INVALID_RECORD),
        (lambda: put(good(), b.BATCH_LENGTH_AT, 4, 3), ErrorCode.CORRUPT_MESSAGE),
        (lambda: put(good(), b.BATCH_LENGTH_AT, 4, -1), ErrorCode.CORRUPT_MESSAGE),
        (lambda: put(good(), b.MAGIC_AT, 1, 1), ErrorCode.INVALID_RECORD),
        (lambda: put(good(), b.RECORD_COUNT_AT, 4, 0), ErrorCode.INVALID_RECORD),
        (lambda: put(good(), b.RECORD_COUNT_AT, 4, -1), ErrorCode.INVALID_RECORD),
        (lambda: put(good(), b.RECORD_COUNT_AT, 4, 4), ErrorCode.INVALID_RECORD),
        (lambda: put(good(), b.LAST_OFFSET_DELTA_AT, 4, 3), ErrorCode.INVALID_RECORD),
        (lambda: put(good(), b.LAST_OFFSET_DELTA_AT, 4, -1), ErrorCode.INVALID_RECORD),
        (lambda: put(good(), b.ATTRIBUTES_AT, 2, b.CONTROL_BIT), ErrorCode.INVALID_RECORD),
        (
            lambda: put(good(), b.ATTRIBUTES_AT, 2, b.LOG_APPEND_TIME_BIT),
            ErrorCode.INVALID_TIMESTAMP,
        ),
        (lambda: put(good(), b.ATTRIBUTES_AT, 2, 5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (lambda: good(producer_id=5), ErrorCode.INVALID_RECORD),
    ],
)
def test_broken_batches_are_refused(broken: Callable[[], bytearray], error: ErrorCode) -> None:
    data = broken()
    problem = validate_header(data, 0, len(data))
    assert problem is not None
    assert problem.error is error


def test_more_records_than_the_bytes_can_hold() -> None:
    data = put(good(), b.RECORD_COUNT_AT, 4, 1_000)
    put(data, b.LAST_OFFSET_DELTA_AT, 4, 999)
    problem = validate_header(data, 0, len(data))
    assert problem is not None
    assert problem.error is ErrorCode.INVALID_RECORD


def test_a_flipped_bit_in_the_payload_is_corrupt() -> None:
    data = good()
    data[-1] ^= 1
    problem = validate_header(data, 0, len(data))
    assert problem is not None
    assert problem.error is ErrorCode.CORRUPT_MESSAGE


def test_zstd_needs_a_newer_produce_version() -> None:
    data = good(compression=4)
    assert validate_header(data, 0, len(data)) is None
    problem = validate_header(data, 0, len(data), zstd_allowed=False)
    assert problem is not None
    assert problem.error is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_rules_for_clients_do_not_bind_other_writers() -> None:
    control = put(good(), b.ATTRIBUTES_AT, 2, b.CONTROL_BIT | b.LOG_APPEND_TIME_BIT)
    gaps = put(good(), b.LAST_OFFSET_DELTA_AT, 4, 30)
    assert validate_header(control, 0, len(control), from_client=False) is None
    assert validate_header(gaps, 0, len(gaps), from_client=False) is None


def deep(data: bytes | bytearray, **options: object) -> RecordsSummary | BatchProblem:
    (batch,) = b.iter_batches(data)
    options.setdefault("decompressed_size_max", MIB)
    return validate_deep(batch, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("codec", range(5))
def test_deep_finds_the_highest_timestamp(codec: int) -> None:
    builder = RecordBatchBuilder(compression=codec)
    for timestamp in (10, 99, 5, 99):
        builder.append(key=b"k", value=b"v", timestamp_ms=timestamp)
    expected = RecordsSummary(max_timestamp=99, offset_delta_of_max_timestamp=1)
    assert deep(builder.build(), compacted=True) == expected


def test_deep_wants_contiguous_offsets() -> None:
    builder = RecordBatchBuilder()
    builder.append(key=b"k", value=b"v", timestamp_ms=1)
    builder.append(key=b"k", value=b"v", timestamp_ms=1, offset_delta=5)
    problem = deep(builder.build())
    assert isinstance(problem, BatchProblem)
    assert (problem.error, [e.batch_index for e in problem.record_errors]) == (
        ErrorCode.INVALID_RECORD,
        [1],
    )


def test_deep_wants_keys_on_compacted_topics_only() -> None:
    builder = RecordBatchBuilder()
    builder.append(key=b"k", value=b"v", timestamp_ms=1)
    builder.append(key=None, value=b"v", timestamp_ms=1)
    data = builder.build()
    assert isinstance(deep(data), RecordsSummary)
    problem = deep(data, compacted=True)
    assert isinstance(problem, BatchProblem)
    assert (problem.error, [e.batch_index for e in problem.record_errors]) == (
        ErrorCode.INVALID_RECORD,
        [1],
    )


@pytest.mark.parametrize(("timestamp", "ok"), [(49, False), (50, True), (60, True), (61, False)])
def test_deep_checks_timestamps(timestamp: int, ok: bool) -> None:
    builder = RecordBatchBuilder()
    builder.append(key=b"k", value=b"v", timestamp_ms=timestamp)
    result = deep(builder.build(), timestamp_min=50, timestamp_max=60)
    if ok:
        assert isinstance(result, RecordsSummary)
    else:
        assert isinstance(result, BatchProblem)
        assert result.error is ErrorCode.INVALID_TIMESTAMP


def test_deep_accepts_records_without_a_timestamp() -> None:
    builder = RecordBatchBuilder()
    builder.append(key=b"k", value=b"v", timestamp_ms=-1)
    assert isinstance(deep(builder.build(), timestamp_min=50), RecordsSummary)


def test_deep_refuses_bombs_and_garbage() -> None:
    builder = RecordBatchBuilder(compression=4)
    builder.append(key=b"k", value=bytes(MIB), timestamp_ms=1)
    data = bytearray(builder.build())
    bomb = deep(data, decompressed_size_max=MIB)
    assert isinstance(bomb, BatchProblem)
    assert bomb.error is ErrorCode.MESSAGE_TOO_LARGE
    data[b.HEADER_SIZE] ^= 0xFF
    garbage = deep(data)
    assert isinstance(garbage, BatchProblem)
    assert garbage.error is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("count", [1, 3])
def test_deep_counts_the_records(codec: int, count: int) -> None:
    builder = RecordBatchBuilder(compression=codec)
    for _ in range(2):
        builder.append(key=b"k", value=b"value", timestamp_ms=1)
    data = put(bytearray(builder.build()), b.RECORD_COUNT_AT, 4, count)
    data = put(data, b.LAST_OFFSET_DELTA_AT, 4, count - 1)
    assert validate_header(data, 0, len(data)) is None
    problem = deep(data)
    assert isinstance(problem, BatchProblem)
    assert problem.error is ErrorCode.INVALID_RECORD
