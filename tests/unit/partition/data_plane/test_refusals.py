"""Why batches are refused that are not plainly good."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.partition.data_plane.policy import AppendPolicy
from highwater.partition.data_plane.refusals import refusal_of

NOW_MS = 1_700_000_000_000


def batch(*timestamps: int, key: bytes | None = b"k") -> bytes:
    builder = RecordBatchBuilder()
    for timestamp in timestamps or (NOW_MS,):
        builder.append(key=key, value=b"v" * 20, timestamp_ms=timestamp)
    return builder.build()


def test_a_good_batch_is_not_refused() -> None:
    assert refusal_of(batch(), AppendPolicy(), NOW_MS) is None
    assert refusal_of(batch(0), AppendPolicy(), NOW_MS) is None, "any age"
    assert refusal_of(batch(), AppendPolicy(validate_records=True), NOW_MS) is None


@pytest.mark.parametrize(
    ("policy", "sent", "code"),
    [
        (AppendPolicy(message_bytes_max=50), batch(), ErrorCode.MESSAGE_TOO_LARGE),
        (AppendPolicy(segment_bytes=50), batch(), ErrorCode.RECORD_LIST_TOO_LARGE),
        (AppendPolicy(), batch()[:-1], ErrorCode.CORRUPT_MESSAGE),
        (AppendPolicy(), batch(NOW_MS + 3_600_001), ErrorCode.INVALID_TIMESTAMP),
        (AppendPolicy(timestamp_before_ms_max=9), batch(NOW_MS - 10), ErrorCode.INVALID_TIMESTAMP),
        (
            AppendPolicy(timestamp_before_ms_max=9),
            batch(NOW_MS - 10, NOW_MS),
            ErrorCode.INVALID_TIMESTAMP,
        ),
        (AppendPolicy(compacted=True), batch(key=None), ErrorCode.INVALID_RECORD),
        (
            AppendPolicy(validate_records=True, timestamp_before_ms_max=9),
            batch(NOW_MS, NOW_MS - 10, NOW_MS),
            ErrorCode.INVALID_TIMESTAMP,
        ),
    ],
)
def test_refusals(policy: AppendPolicy, sent: bytes, code: ErrorCode) -> None:
    refusal = refusal_of(sent, policy, NOW_MS)
    assert refusal is not None
    assert refusal.error_code == code
    assert refusal.message


def test_the_broker_s_own_timestamps_are_not_limited() -> None:
    policy = AppendPolicy(log_append_time=True, timestamp_before_ms_max=9, validate_records=True)
    assert refusal_of(batch(0), policy, NOW_MS) is None
    assert refusal_of(batch(NOW_MS + 7_200_000), policy, NOW_MS) is None
