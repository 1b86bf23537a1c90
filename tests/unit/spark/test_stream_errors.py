from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.model.errors import UsageError
from highwater.spark.stream_errors import RecordsGone, StreamFailed, explain
from highwater.spark.topic_admin import ClusterAway


def told(text: str) -> Exception:
    return explain(RuntimeError(text), topic="t", bootstrap="b:1")


def test_our_own_errors_stay():
    error = UsageError("as it is")
    assert explain(error, topic="t", bootstrap="b:1") is error


LOST = (
    "Some data may have been lost because they are not available in Kafka any more; either the data was aged "
    "out by Kafka or the topic may have been deleted before all the data in the topic was processed."
)
"""From the connector's `error/kafka-error-conditions.json`; tests/spark provokes some of them."""


@pytest.mark.parametrize(
    "text",
    [
        f"[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] {LOST}\nReason:\nCould not read records in",
        f"[KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED] {LOST}\nReason:\nPartition t-0 offset was changed",
        f"[KAFKA_DATA_LOSS.PARTITIONS_DELETED] {LOST}\nReason:\nPartitions Set(t-0) have been deleted.",
        f"[KAFKA_DATA_LOSS.START_OFFSET_RESET] {LOST}\nReason:\nStarting offset for t-0 was 5 but",
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
    assert isinstance(error, ClusterAway)
    assert str(error) == "the cluster at b:1 does not answer, topic t"


def test_anything_else_is_its_first_line():
    error = told("disk full\n\tat z")
    assert isinstance(error, StreamFailed)
    assert str(error) == "topic t: disk full"
