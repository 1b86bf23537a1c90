"""What is asked of Spark's sink; tests/spark reads the records."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.topic_sink import TopicSink, send, send_pairs

SINK = TopicSink(bootstrap="b:1", topic="t")


def test_one_task_sends_with_acks_of_all():
    rows = MagicMock()
    send(rows, SINK)
    rows.select.assert_called_once_with("key", "value")
    rows.select().coalesce.assert_called_once_with(1)
    options = rows.select().coalesce().write.format().options
    given = options.call_args.kwargs
    assert (given["topic"], given["kafka.bootstrap.servers"]) == ("t", "b:1")
    assert (given["kafka.acks"], given["kafka.enable.idempotence"]) == ("all", "true")
    options().save.assert_called_once_with()


def test_options_of_the_client():
    given = {"kafka.security.protocol": "SSL", "kafka.acks": "0"}
    rows = MagicMock()
    send(rows, TopicSink(bootstrap="b:1", topic="t", kafka=given))
    asked = rows.select().coalesce().write.format().options.call_args.kwargs
    assert (asked["kafka.security.protocol"], asked["kafka.acks"]) == ("SSL", "all")


def test_nothing_to_send_starts_no_job():
    spark = MagicMock()
    send_pairs(spark, [], SINK)
    spark.createDataFrame.assert_not_called()
    send_pairs(spark, [("k", None)], SINK)
    assert spark.createDataFrame.call_args.args[0] == [("k", None)]
