"""The slow half of append validation: why a batch is refused, or that it is fine after all.

The fast path in `replica` decides only good or not good; everything that is not plainly good
comes here, among it every batch of topics with deep validation or LogAppendTime.
"""

from typing import Any

from highwater.hop.append import Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import (
    LOG_APPEND_TIME_BIT,
    RecordBatchView,
)
from highwater.kafka.records.validation import (
    NO_TIMESTAMP,
    BatchProblem,
    validate_deep,
    validate_header,
)
from highwater.partition.data_plane.policy import AppendPolicy


def refusal_of(batch: Any, policy: AppendPolicy, now_ms: int) -> Failure | None:
    """None if the batch may be appended (Kafka's `LogValidator`, `UnifiedLog.append`)."""
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
    problem = validate_header(batch, 0, size)
    if problem is not None:
        return Failure(problem.error, problem.message)
    view = RecordBatchView(batch, 0, size)
    return _timestamp_refusal(view, policy, now_ms) or _deep_refusal(view, policy, now_ms)


def _timestamp_refusal(view: RecordBatchView, policy: AppendPolicy, now_ms: int) -> Failure | None:
    if policy.log_append_time or view.attributes & LOG_APPEND_TIME_BIT:
        return None
    latest = now_ms + policy.timestamp_after_ms_max
    if view.max_timestamp > latest:
        return Failure(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {view.max_timestamp} is more than message.timestamp.after.max.ms "
            f"({policy.timestamp_after_ms_max}) ahead of the broker's clock",
        )
    # The header has the first timestamp and the largest; those between need deep validation.
    oldest = min(view.header().base_timestamp, view.max_timestamp)
    if oldest != NO_TIMESTAMP and oldest < now_ms - policy.timestamp_before_ms_max:
        return Failure(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {oldest} is more than message.timestamp.before.max.ms "
            f"({policy.timestamp_before_ms_max}) behind the broker's clock",
        )
    return None


def _deep_refusal(view: RecordBatchView, policy: AppendPolicy, now_ms: int) -> Failure | None:
    if not policy.deep:
        return None
    stamped = policy.log_append_time
    verdict = validate_deep(
        view,
        decompressed_size_max=policy.decompressed_bytes_max,
        compacted=policy.compacted,
        timestamp_min=None if stamped else now_ms - policy.timestamp_before_ms_max,
        timestamp_max=None if stamped else now_ms + policy.timestamp_after_ms_max,
    )
    if isinstance(verdict, BatchProblem):
        return Failure(verdict.error, verdict.message)
    return None
