from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.model.errors import UsageError
from highwater.spark.stream_source import StreamSource, parse_starting, stream_options


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
