from __future__ import annotations

import pytest

from highwater.model.errors import UsageError
from highwater.spark.stream_errors import LINE_LENGTH_MAX, RecordsGone, StreamFailed, explain


def told(text: str) -> Exception:
    return explain(RuntimeError(text), topic="t", bootstrap="b:1")


def test_our_own_errors_stay():
    error = UsageError("as it is")
    assert explain(error, topic="t", bootstrap="b:1") is error


@pytest.mark.parametrize(
    "text",
    [
        "[STREAM_FAILED] ...: [KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data ...\nmore",
        "Partition t-0's offset was changed from 100 to 3. Some data may have been lost",
    ],
)
def test_records_that_are_gone(text: str):
    error = told(text)
    assert isinstance(error, RecordsGone)
    assert str(error).startswith("records of t are gone before they were read")
    assert "\n" not in str(error)


def test_a_cluster_that_does_not_answer():
    error = told("x\nCaused by: org.apache.kafka.common.errors.TimeoutException: Timed out\n\tat y")
    assert str(error) == "the cluster at b:1 does not answer, topic t"


def test_the_first_cause_is_told():
    error = told(
        "a\nCaused by: x.OneException: one\n\tat z\nCaused by: java.io.IOException: disk full"
    )
    assert isinstance(error, StreamFailed)
    assert str(error) == "topic t: disk full"


def test_a_long_line_is_cut():
    assert len(str(told("x" * 10_000))) < LINE_LENGTH_MAX + 20
