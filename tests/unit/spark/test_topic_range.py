"""The connector's options for ranges of offsets."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

import json

from highwater.spark.topic_range import OffsetRange, ReadOptions, range_options

RANGES = [
    OffsetRange(topic="a", partition=0, start=5, end=9),
    OffsetRange(topic="a", partition=2, start=0, end=1),
    OffsetRange(topic="b", partition=1, start=7, end=8),
]


def test_exactly_these_offsets() -> None:
    found = range_options(RANGES, ReadOptions(bootstrap="h:1"))
    assert json.loads(found["assign"]) == {"a": [0, 2], "b": [1]}
    assert json.loads(found["startingOffsets"]) == {"a": {"0": 5, "2": 0}, "b": {"1": 7}}
    assert json.loads(found["endingOffsets"]) == {"a": {"0": 9, "2": 1}, "b": {"1": 8}}
    assert found["failOnDataLoss"] == "true"
    assert found["kafka.isolation.level"] == "read_committed"
    assert "maxRecordsPerPartition" not in found
    assert sum(each.offsets for each in RANGES) == 6


def test_large_partitions_may_be_split_and_clients_be_set() -> None:
    options = ReadOptions(
        bootstrap="h:1",
        read_committed=False,
        offsets_per_task=100,
        kafka={"kafka.bootstrap.servers": "x", "kafka.security.protocol": "SSL"},
    )
    found = range_options(RANGES, options)
    assert found["kafka.isolation.level"] == "read_uncommitted"
    assert found["maxRecordsPerPartition"] == "100"
    assert found["kafka.security.protocol"] == "SSL"
    assert found["kafka.bootstrap.servers"] == "h:1"
