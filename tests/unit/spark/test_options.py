"""Options of the Kafka client, and of reading."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.model.errors import UsageError
from highwater.spark.options import kafka_options, read_options
from highwater.spark.topic_range import ReadOptions


def test_options_of_the_client() -> None:
    assert kafka_options(["a.b=c=d"]) == {"kafka.a.b": "c=d"}
    with pytest.raises(UsageError, match="'a'"):
        kafka_options(["a"])


def test_reading() -> None:
    assert read_options("h:1", ["a=b"], per_task=7, uncommitted=True) == ReadOptions(
        bootstrap="h:1", read_committed=False, offsets_per_task=7, kafka={"kafka.a": "b"}
    )
    assert read_options("h:1", None, per_task=None, uncommitted=False).read_committed
