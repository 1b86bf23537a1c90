"""The slow part of append validation: why a batch is refused, or that it is valid after all.

The fast path in `replica` only recognises batches that are plainly valid. All others come here, and
so does every batch of a topic with deep validation or LogAppendTime, but for those that the node has
made itself.
"""

from collections.abc import Sequence

from highwater.hop.append import Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.primitives import Buffer
from highwater.kafka.records.batch import RecordBatchView
from highwater.kafka.records.validation import (
    NO_TIMESTAMP,
    BatchProblem,
    RecordError,
    validate_deep,
    validate_header,
)
from highwater.partition.data_plane.policy import AppendPolicy
from highwater.partition.data_plane.refused_batch import RefusedBatch


def verdict_on(
    batch: Buffer, policy: AppendPolicy, now_ms: int, *, from_client: bool = True
) -> Failure | int:
    """Why a batch may not be appended, or its largest timestamp in milliseconds.

    See Kafka's `LogValidator` and `UnifiedLog.append`. The stored header gets that timestamp: the
    append time with LogAppendTime, otherwise the records' largest if they were decoded, or the
    header's, which then is not before the first.
    """
    if isinstance(batch, RefusedBatch):
        return batch.failure
    size = len(batch)
    if size > policy.message_bytes_max:
        return Failure(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size} bytes, max.message.bytes is {policy.message_bytes_max}",
        )
    if size > policy.segment_bytes:
        return Failure(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the batch has {size} bytes, segment.bytes is {policy.segment_bytes}",
        )
    problem = validate_header(batch, 0, size, from_client=from_client)
    if problem is not None:
        return Failure(problem.error, problem.message)
    view = RecordBatchView(batch, 0, size)
    largest = _of_records(view, policy, now_ms) if policy.deep else _of_header(view, policy, now_ms)
    return now_ms if policy.log_append_time and not isinstance(largest, Failure) else largest


def _of_header(view: RecordBatchView, policy: AppendPolicy, now_ms: int) -> Failure | int:
    """Validates by the header, which has the first and the largest timestamp: not those between.

    A largest timestamp before the first one is wrong, or missing (-1, as some clients send it).
    Retention would delete new records for it, so the records say what is right, as in Kafka. Any
    other may be wrong, too; retention and searches by time trust it, within these bounds. Out of
    them the records decide, too; if they refuse the batch, the answer names the invalid ones.
    """
    header = view.header()
    largest = header.max_timestamp
    if policy.log_append_time:
        return largest
    if largest < header.base_timestamp:
        return _of_records(view, policy, now_ms)
    oldest = header.base_timestamp
    if largest > now_ms + policy.timestamp_after_ms_max:
        message = (
            f"timestamp {largest} is more than message.timestamp.after.max.ms "
            f"({policy.timestamp_after_ms_max}) ahead of the broker's clock"
        )
    elif oldest != NO_TIMESTAMP and oldest < now_ms - policy.timestamp_before_ms_max:
        message = (
            f"timestamp {oldest} is more than message.timestamp.before.max.ms "
            f"({policy.timestamp_before_ms_max}) behind the broker's clock"
        )
    else:
        return largest
    found = _of_records(view, policy, now_ms)
    if not isinstance(found, Failure):
        return found
    named: Sequence[tuple[int, str]] = ()
    if found.error_code == ErrorCode.INVALID_TIMESTAMP:
        named = found.record_errors
    elif header.record_count == 1:
        named = [RecordError(0, message)]  # The record cannot be read.
    return Failure(ErrorCode.INVALID_TIMESTAMP, message, record_errors=named)


def _of_records(view: RecordBatchView, policy: AppendPolicy, now_ms: int) -> Failure | int:
    """Validates by the records themselves."""
    stamped = policy.log_append_time
    verdict = validate_deep(
        view,
        decompressed_size_max=policy.decompressed_bytes_max,
        compacted=policy.compacted,
        timestamp_min=None if stamped else now_ms - policy.timestamp_before_ms_max,
        timestamp_max=None if stamped else now_ms + policy.timestamp_after_ms_max,
    )
    if isinstance(verdict, BatchProblem):
        return Failure(verdict.error, verdict.message, record_errors=verdict.record_errors)
    return verdict.max_timestamp
