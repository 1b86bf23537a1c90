from __future__ import annotations

import json

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.model.errors import UsageError
from highwater.spark.brokers import TopicPartition
from highwater.spark.stream_source import (
    StreamSource,
    parse_starting,
    resolve_starting,
    stream_options,
)


def options(**more: object) -> dict[str, str]:
    return stream_options(StreamSource(bootstrap="b:1", topic="t", **more))


def test_what_is_always_set():
    found = options()
    assert found["kafka.bootstrap.servers"] == "b:1"
    assert found["subscribe"] == "t"
    assert found["kafka.isolation.level"] == "read_committed"
    assert found["failOnDataLoss"] == "true"
    assert found["startingOffsets"] == "earliest"
    assert "maxOffsetsPerTrigger" not in found


def test_a_limit_for_each_batch():
    assert options(offsets_per_batch=7)["maxOffsetsPerTrigger"] == "7"


def test_options_of_the_client():
    given = {"kafka.security.protocol": "SSL", "kafka.bootstrap.servers": "c:1"}
    found = options(kafka=given)
    assert found["kafka.security.protocol"] == "SSL"
    assert found["kafka.bootstrap.servers"] == "b:1"


def test_from_a_time_on():
    found = options(starting=5000)
    assert found["startingTimestamp"] == "5000"
    assert found["startingOffsetsByTimestampStrategy"] == "latest"
    assert "startingOffsets" not in found


@pytest.mark.parametrize(
    ("text", "starting"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("1970-01-01T00:00:05", 5000),
        ("1970-01-01T01:00:05+01:00", 5000),
    ],
)
def test_starts(text: str, starting: str | int):
    assert parse_starting(text) == starting


def test_no_start():
    with pytest.raises(UsageError, match="--from wants earliest, latest or a time, not 'soon'"):
        parse_starting("soon")


def test_from_offsets_on():
    found = options(starting={0: 7, 1: 0})
    assert json.loads(found["startingOffsets"]) == {"t": {"0": 7, "1": 0}}
    assert "startingTimestamp" not in found


class FakeBrokers:
    """Of partition 0 a transaction is open from 5 on; partition 2 has no record that is as new as any time."""

    def earliest(self, asked: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: 1 + each.partition for each in asked}

    def latest(self, asked: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: 5 + each.partition for each in asked}

    def at_time(self, asked: list[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        assert time_ms == 5000
        return dict(zip(asked, (9, 4), strict=False))


@pytest.mark.parametrize(
    ("starting", "found"),
    [
        ("earliest", {0: 1, 1: 2, 2: 3}),
        ("latest", {0: 5, 1: 6, 2: 7}),
        (5000, {0: 5, 1: 4, 2: 7}),
        ({0: 3}, {0: 3}),
    ],
)
def test_the_offsets_of_a_start(starting: str | int | dict[int, int], found: dict[int, int]):
    source = StreamSource(bootstrap="b:1", topic="t", starting=starting)
    assert resolve_starting(FakeBrokers(), source, 3) == found
