"""Requests whose time lies in the future do not end a stream's results: they are left out, counted and kept."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from confluent_kafka import Producer

from highwater.spark.jobs.watch import watch
from highwater.spark.tables import open_table
from highwater.spark.watch.traffic import collect
from tests.conformance.topics import unique_name
from tests.support.cluster import Cluster
from tests.support.spark_loads import keeping_topic
from tests.support.stream_jobs import make_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

START_S = int(datetime(2024, 1, 2, 5, tzinfo=UTC).timestamp())
LATE_S = 60


def line(time_s: int) -> bytes:
    time = datetime.fromtimestamp(time_s, UTC)
    return f'h - - [{time:%d/%b/%Y:%H:%M:%S +0000}] "GET /a HTTP/1.1" 200 7 "-" "-"'.encode()


def send_stamped(bootstrap: str, topic: str, records: list[tuple[bytes, int]]) -> None:
    """Values with the times (seconds) of their records."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for value, stamped_s in records:
        producer.produce(topic, value, partition=0, timestamp=stamped_s * 1000)
    assert producer.flush(60) == 0


@pytest.mark.full
def test_a_request_of_2099_is_left_out_and_the_next_minutes_come(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("future"))

    def minutes() -> list[tuple[int, int]]:
        job = make_job(
            spark, cluster.bootstrap, topic, tmp_path / "state", "watch", offsets_per_batch=1000,
            quarantine=tmp_path / "bad",
        )  # fmt: skip
        watch(
            job, late_s=LATE_S, minutes_path=str(tmp_path / "minutes"),
            alarms_path=str(tmp_path / "alarms"), rules=(), alarm_topic=None,
        )  # fmt: skip
        found = collect(open_table(spark, "delta", str(tmp_path / "minutes")).read())
        return [((each.start_s - START_S) // 60, each.requests) for each in found]

    future = line(int(datetime(2099, 1, 1, tzinfo=UTC).timestamp()))
    first = [(line(START_S + each), START_S + each) for each in range(0, 300, 20)]
    send_stamped(cluster.bootstrap, topic, [*first, (future, START_S + 300)])
    assert minutes() == [(0, 3), (1, 3), (2, 3)]
    second = [(line(START_S + each), START_S + each) for each in range(300, 600, 20)]
    send_stamped(cluster.bootstrap, topic, second)
    assert minutes() == [(number, 3) for number in range(8)]
    (kept,) = open_table(spark, "delta", str(tmp_path / "bad")).read().collect()
    assert (kept["offset"], bytes(kept["value"])) == (len(first), future)
    assert kept["error"] == "ahead of the record's timestamp"


@pytest.mark.full
def test_json_that_is_no_request_is_left_out_and_kept_and_not_counted_as_zero(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("unfit"))
    whole = {"time": START_S, "client": "c", "path": "/a", "status": 200, "bytes": 7}
    good = [
        whole,
        whole | {"status": "404", "bytes": "-"},
        {name: value for name, value in whole.items() if name != "bytes"},
        whole | {"latency_ms": 1.5, "referrer": None, "time": START_S + 599},
    ]
    bad = [
        *(whole | {"status": value} for value in ("abc", None, 200.5, -1, 1000, {})),
        *(whole | {"bytes": value} for value in ("many", -1, 1.5, [7], 9 * 10**18, 10**13)),
        *(whole | {"latency_ms": value} for value in ("slow", "NaN", "Infinity", True)),
        *(whole | {"time": value} for value in ("0000-05-01T00:00:00Z", -99_999_999_999)),
        *({k: v for k, v in whole.items() if k != name} for name in ("client", "path", "status")),
        whole | {"time": START_S + 601},
    ]
    values = [json.dumps(each).encode() for each in (*good, *bad)]
    send_stamped(cluster.bootstrap, topic, [(value, START_S) for value in values])
    job = make_job(
        spark, cluster.bootstrap, topic, tmp_path / "state", "watch", offsets_per_batch=1000,
        json_fields="", quarantine=tmp_path / "bad", ahead_s=600,
    )  # fmt: skip
    watch(
        job, late_s=LATE_S, minutes_path=str(tmp_path / "minutes"),
        alarms_path=str(tmp_path / "alarms"), rules=(), alarm_topic=None,
    )  # fmt: skip
    (minute,) = collect(open_table(spark, "delta", str(tmp_path / "minutes")).read())
    assert (minute.start_s, minute.requests, minute.client_errors, minute.size_bytes) == (
        START_S, 3, 1, 7,
    )  # fmt: skip
    rows = open_table(spark, "delta", str(tmp_path / "bad")).read().orderBy("offset").collect()
    assert [bytes(row["value"]) for row in rows] == values[len(good) :]
    assert [row["error"] for row in rows] == [
        *["not in the format"] * (len(bad) - 1), "ahead of the record's timestamp",
    ]  # fmt: skip
