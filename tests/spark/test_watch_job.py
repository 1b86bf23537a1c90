"""The watch job on a real broker: minutes and alarms equal to what plain Python computes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")


from highwater.spark.jobs.watch import watch
from highwater.spark.tables import open_table
from highwater.spark.watch.minute import Minute
from highwater.spark.watch.rules import parse_rules
from highwater.spark.watch.traffic import collect
from tests.conformance.topics import make_topic, unique_name
from tests.support import watched_sample
from tests.support.cluster import Cluster
from tests.support.kill_moments import kill_moments, third_commit
from tests.support.stream_jobs import (
    command,
    finish,
    make_job,
    minutes_of,
    read_all,
    sample_events,
)
from tests.support.watched_sample import LATE_S, RULES, assert_right, assert_told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OFFSETS_PER_BATCH = {1: 3000, 20: 250}
"""By kills: more of them need more batches."""


def test_minutes_and_alarms_of_the_sample(
    cluster: Cluster, spark: SparkSession, sample_topic: str, tmp_path: Path
) -> None:
    alarm_topic = make_topic(cluster.bootstrap, unique_name("alarms"))
    page = tmp_path / "watch.html"
    job = make_job(
        spark, cluster.bootstrap, sample_topic, tmp_path / "state", "watch",
        offsets_per_batch=4000, html=page,
    )  # fmt: skip
    watch(
        job,
        late_s=LATE_S,
        minutes_path=str(tmp_path / "minutes"),
        alarms_path=str(tmp_path / "alarms"),
        rules=parse_rules(RULES),
        alarm_topic=alarm_topic,
    )
    changes = assert_right(spark, tmp_path)
    assert [value for _, value in read_all(cluster.bootstrap, alarm_topic)] == changes
    text = page.read_text()
    minutes = minutes_of(sample_events(), late_s=LATE_S)
    assert f"{sum(each.requests for each in minutes):,} requests in {len(minutes)} minutes" in text
    assert text.count("<svg") == 3
    assert "<td>missing pages</td>" in text
    assert ">10,000</dd>" in text, "records read by this run"


@pytest.mark.full
@pytest.mark.parametrize("table_format", ["iceberg", "parquet"])
def test_tables_of_other_formats(
    cluster: Cluster, spark: SparkSession, sample_topic: str, tmp_path: Path, table_format: str
) -> None:
    """Two runs over the same checkpoint: the second one finds in the tables that everything is there."""
    for _ in range(2):
        job = make_job(
            spark, cluster.bootstrap, sample_topic, tmp_path / "state", "watch",
            offsets_per_batch=4000, table_format=table_format,
        )  # fmt: skip
        watch(
            job, late_s=LATE_S, minutes_path=str(tmp_path / "minutes"),
            alarms_path=str(tmp_path / "alarms"), rules=parse_rules(RULES), alarm_topic=None,
        )  # fmt: skip
        assert_right(spark, tmp_path, table_format)


@pytest.mark.full
def test_latency_of_json_records_and_late_ones(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    from tests.spark.test_report_job import send

    topic = make_topic(cluster.bootstrap, unique_name("json"))
    start = int(datetime(2024, 1, 2, tzinfo=UTC).timestamp())

    def record(time_s: int, took: float) -> bytes:
        return json.dumps({"ts": time_s, "status": 200, "t": {"took": took}}).encode()

    send(cluster, topic, [record(start + each, each) for each in range(60)])
    send(cluster, topic, [b"garbage", record(start + 600, 1)])

    def run() -> list[Minute]:
        job = make_job(
            spark, cluster.bootstrap, topic, tmp_path / "state", "watch", offsets_per_batch=1000,
            json_fields="time=ts,client=,path=,latency_ms=t.took",
        )  # fmt: skip
        watch(
            job, late_s=60, minutes_path=str(tmp_path / "minutes"),
            alarms_path=str(tmp_path / "alarms"), rules=(), alarm_topic=None,
        )  # fmt: skip
        return collect(open_table(spark, "delta", str(tmp_path / "minutes")).read())

    (minute,) = run()
    assert (minute.start_s, minute.requests) == (start, 60)
    assert (minute.latency_p50, minute.latency_p95, minute.latency_p99) == (29, 56, 59)
    # Too late for the minute that is closed, not for the one that is open.
    send(cluster, topic, [record(start + 30, 99), record(start + 590, 7), record(start + 900, 1)])
    assert [(each.start_s - start, each.requests) for each in run()] == [
        (0, 60),
        (540, 1),
        (600, 1),
    ]


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.anywhere(kills=1)
@pytest.mark.parametrize("kills", OFFSETS_PER_BATCH)
def test_killed_in_batches_every_row_is_there_once(
    cluster: Cluster, spark: SparkSession, sample_topic: str, tmp_path: Path, kills: int
) -> None:
    alarm_topic = make_topic(cluster.bootstrap, unique_name("alarms"))
    arguments = command(
        *watched_sample.arguments(
            cluster.bootstrap, sample_topic, alarm_topic, tmp_path,
            offsets_per_batch=OFFSETS_PER_BATCH[kills],
        )
    )  # fmt: skip
    moments = kill_moments(tmp_path / "state", tmp_path / "minutes", tmp_path / "alarms")
    if kills == 1:
        # The minutes of the third batch are committed, its alarms are on their way.
        moments = [third_commit(tmp_path / "minutes")]
    assert len(moments) == kills
    for moment in moments:
        moment.kill(arguments, tmp_path / "log")
    done = finish([*arguments, "--once"])
    assert done.returncode == 0, done.stderr[-3000:]
    changes = assert_right(spark, tmp_path)
    assert_told(cluster.bootstrap, alarm_topic, changes)
