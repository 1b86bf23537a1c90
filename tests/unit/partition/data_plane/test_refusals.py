"""Verdicts on batches that are not plainly valid."""

import pytest

from highwater.hop.append import Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import CRC_AT, MAX_TIMESTAMP_AT, crc_of
from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.kafka.records.validation import RECORD_ERRORS_MAX
from highwater.partition.data_plane.policy import AppendPolicy
from highwater.partition.data_plane.refusals import verdict_on
from tests.support.log_batches import make_batch

NOW = 1_700_000_000_000


def refusal_of(batch, policy, now_ms):
    verdict = verdict_on(batch, policy, now_ms)
    return verdict if isinstance(verdict, Failure) else None


def code(batch, **policy):
    failure = refusal_of(batch, AppendPolicy(**policy), NOW)
    return failure.error_code if failure is not None else 0


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_good_batches_pass_every_check(compression):
    batch = make_batch(timestamps=(NOW, NOW - 5), compression=compression)
    for policy in ({}, {"validate_records": True}, {"compacted": True}, {"log_append_time": True}):
        assert code(batch, **policy) == 0


def test_a_compacted_topic_refuses_records_without_a_key():
    builder = RecordBatchBuilder()
    builder.append(key=b"k", value=b"v", timestamp_ms=NOW)
    builder.append(key=None, value=b"v", timestamp_ms=NOW)
    batch = bytearray(builder.build())
    assert code(batch) == 0
    assert code(batch, validate_records=True) == 0
    assert code(batch, compacted=True) == ErrorCode.INVALID_RECORD


def test_deep_validation_checks_the_timestamp_of_every_record():
    late = make_batch(timestamps=(NOW, NOW - 5000, NOW))
    assert code(late, timestamp_before_ms_max=1000) == 0, "seen in neither end of the header"
    late_policy = {"timestamp_before_ms_max": 1000, "validate_records": True}
    assert code(late, **late_policy) == ErrorCode.INVALID_TIMESTAMP
    assert code(late, log_append_time=True, **late_policy) == 0


def records(batch, **policy):
    failure = refusal_of(batch, AppendPolicy(**policy), NOW)
    return [index for index, _ in failure.record_errors]


def test_each_bad_record_is_listed():
    """KIP-467: like Kafka's LogValidator, it checks all records before it refuses."""
    builder = RecordBatchBuilder()
    for number in range(6):
        builder.append(key=None if number % 2 else b"k", value=b"v", timestamp_ms=NOW)
    batch = bytearray(builder.build())
    assert records(batch, compacted=True) == [1, 3, 5]
    failure = refusal_of(batch, AppendPolicy(compacted=True), NOW)
    assert "3 record errors" in failure.message
    assert all("key" in message for _, message in failure.record_errors)
    late = make_batch(timestamps=(NOW, NOW - 5000, NOW, NOW - 6000))
    policy = {"timestamp_before_ms_max": 1000, "validate_records": True}
    assert records(late, **policy) == [1, 3]
    assert "invalid timestamp" in refusal_of(late, AppendPolicy(**policy), NOW).message


def test_a_bad_timestamp_decides_the_code_before_a_missing_key():
    builder = RecordBatchBuilder()
    builder.append(key=None, value=b"v", timestamp_ms=NOW)
    builder.append(key=b"k", value=b"v", timestamp_ms=NOW + 9_999_999)
    batch = bytearray(builder.build())
    assert code(batch, compacted=True) == ErrorCode.INVALID_TIMESTAMP
    assert records(batch, compacted=True) == [0, 1]


def test_the_list_of_bad_records_has_a_limit():
    builder = RecordBatchBuilder()
    for _ in range(5000):
        builder.append(key=None, value=b"v", timestamp_ms=NOW)
    assert len(records(bytearray(builder.build()), compacted=True)) == RECORD_ERRORS_MAX


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_for_a_bad_timestamp_in_the_header_the_bad_records_are_listed(compression):
    """As with deep validation: the batch is refused anyway, so its records may be read."""
    future, old = NOW + 9_999_999, NOW - 5000
    batch = make_batch(timestamps=(NOW, future, NOW, future), compression=compression)
    failure = refusal_of(batch, AppendPolicy(), NOW)
    assert failure.error_code == ErrorCode.INVALID_TIMESTAMP
    assert "after.max.ms" in failure.message
    assert [index for index, _ in failure.record_errors] == [1, 3]
    assert all(str(future) in message for _, message in failure.record_errors)
    batch = make_batch(timestamps=(old, NOW, old), compression=compression)
    failure = refusal_of(batch, AppendPolicy(timestamp_before_ms_max=1000), NOW)
    assert "before.max.ms" in failure.message
    assert [index for index, _ in failure.record_errors] == [0, 2]
    assert all(str(old) in message for _, message in failure.record_errors)


def test_a_record_error_names_the_limit_that_its_timestamp_exceeds():
    """Also if the other limit is not set."""
    for policy in ({}, {"validate_records": True}):
        [(_, message)] = refusal_of(
            make_batch(timestamps=(NOW + 9_999_999,)), AppendPolicy(**policy), NOW
        ).record_errors
        assert str(NOW + 3_600_000) in message
        assert str(-(2**62))[:4] not in message
        assert "None" not in message


def test_unreadable_records_are_not_listed_except_an_only_record():
    """The header's timestamp has refused the batch, and the records cannot show which is wrong."""
    packed = make_batch(timestamps=(NOW + 9_999_999, NOW), value=b"\0" * 50_000, compression=1)
    failure = refusal_of(packed, AppendPolicy(decompressed_bytes_max=1000), NOW)
    assert failure.error_code == ErrorCode.INVALID_TIMESTAMP
    assert not failure.record_errors
    one = make_batch(timestamps=(NOW + 9_999_999,), value=b"\0" * 50_000, compression=1)
    assert records(one, decompressed_bytes_max=1000) == [0]


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_a_header_later_than_the_limit_is_corrected_if_its_records_are_not(compression):
    """As in Kafka, which goes by the records alone."""
    batch = make_batch(timestamps=(NOW - 5, NOW, NOW - 9), compression=compression)
    assert verdict_on(said(batch, NOW + 9_999_999), AppendPolicy(), NOW) == NOW


def said(batch, largest):
    """The batch with another largest timestamp in its header."""
    batch[MAX_TIMESTAMP_AT : MAX_TIMESTAMP_AT + 8] = largest.to_bytes(8, "big", signed=True)
    batch[CRC_AT : CRC_AT + 4] = crc_of(batch, 0, len(batch)).to_bytes(4, "big")
    return batch


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("largest", [NOW - 1, 5, -1])
def test_records_count_if_the_header_has_a_largest_timestamp_before_the_first(compression, largest):
    future, old = NOW + 9_999_999, NOW - 5000
    policy = AppendPolicy(timestamp_before_ms_max=1000)
    batch = said(make_batch(timestamps=(NOW, NOW - 1, NOW + 7), compression=compression), largest)
    for each in (AppendPolicy(), policy):
        assert verdict_on(batch, each, NOW) == NOW + 7, "the header's would be too old"
    batch = said(make_batch(timestamps=(NOW, future, old), compression=compression), largest)
    failure = refusal_of(batch, AppendPolicy(), NOW)
    assert failure.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in failure.record_errors] == [1]
    assert records(batch, timestamp_before_ms_max=1000) == [1, 2]


def test_records_may_all_be_before_the_first_timestamp_of_the_header():
    """No client sends this, but Kafka takes it."""
    batch = make_batch(timestamps=(NOW,))
    delta_at = 61 + 2  # Behind the record's length and attributes.
    assert batch[delta_at] == 0
    batch[delta_at] = 1  # -1
    assert verdict_on(said(batch, 5), AppendPolicy(), NOW) == NOW - 1
    assert verdict_on(said(batch, NOW - 1), AppendPolicy(), NOW) == NOW - 1


def test_a_wrong_largest_timestamp_is_refused_if_the_records_cannot_be_read():
    """With Kafka's codes, as in deep validation."""
    nonsense = make_batch(timestamps=(NOW, NOW))
    nonsense[61:] = b"\xff" * (len(nonsense) - 61)
    assert code(said(bytearray(nonsense), 5)) == ErrorCode.INVALID_RECORD
    assert code(said(bytearray(nonsense), 5), log_append_time=True) == 0, "nobody trusts it"
    assert code(said(bytearray(nonsense), NOW)) == 0, "opaque as ever"
    packed = make_batch(timestamps=(NOW, NOW), value=b"\0" * 50_000, compression=1)
    assert code(said(packed, 5), decompressed_bytes_max=1000) == ErrorCode.MESSAGE_TOO_LARGE
    packed[61:] = b"\xff" * (len(packed) - 61)
    assert code(said(packed, 5)) == ErrorCode.CORRUPT_MESSAGE


def test_decompression_has_a_limit():
    batch = make_batch(timestamps=(NOW,), value=b"\0" * 500_000, compression=1)
    assert code(batch, validate_records=True) == 0
    limited = {"validate_records": True, "decompressed_bytes_max": 100_000}
    assert code(batch, **limited) == ErrorCode.MESSAGE_TOO_LARGE


def test_messages_name_the_configs():
    batch = make_batch()
    assert "max.message.bytes" in refusal_of(batch, AppendPolicy(message_bytes_max=9), 0).message
    assert "segment.bytes" in refusal_of(batch, AppendPolicy(segment_bytes=9), 0).message
    future = make_batch(timestamps=(NOW,))
    assert "after.max.ms" in refusal_of(future, AppendPolicy(), 0).message
