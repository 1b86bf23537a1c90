"""What streams leave out is in a quarantine: every record once, with its place, also after a kill."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.crawlers.sessions import Limits
from highwater.spark.jobs.crawlers import detect_crawlers
from highwater.spark.jobs.watch import watch
from highwater.spark.tables import open_table
from tests.conformance.topics import unique_name
from tests.support.cluster import Cluster
from tests.support.spark_loads import keeping_topic, send
from tests.support.stream_jobs import command, commits, finish, make_job, start_and_kill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

GOOD = b'h - - [02/Jan/2023:05:00:00 +0000] "GET /a HTTP/1.1" 200 7 "-" "-"'


def kept(spark: SparkSession, place: Path) -> list[tuple[int, int, bytes | None, str]]:
    """Partition, offset, value and key of all rows."""
    rows = open_table(spark, "delta", str(place)).read().collect()
    assert {row["error"] for row in rows} == {"not in the format"}
    assert all(row["topic_id"] for row in rows)
    return sorted(
        (
            row["partition"],
            row["offset"],
            None if row["value"] is None else bytes(row["value"]),
            "" if row["key"] is None else bytes(row["key"]).decode(),
        )
        for row in rows
    )


@pytest.mark.full
def test_lines_that_are_none_are_kept_and_a_second_run_goes_on(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("unfit"), partitions=2)
    bad = [b"garbage", None, b"\xff<script>"]
    send(cluster.bootstrap, topic, [GOOD, *bad, GOOD])
    send(cluster.bootstrap, topic, [b"", GOOD], partition=1)

    def run() -> None:
        job = make_job(
            spark, cluster.bootstrap, topic, tmp_path / "state", "crawlers",
            offsets_per_batch=1000, quarantine=tmp_path / "bad",
        )  # fmt: skip
        limits = Limits(requests=2, within_ms=1000, gap_ms=1000)
        detect_crawlers(
            job, limits, late_s=60, table_path=str(tmp_path / "crawlers"), block_list=None
        )

    run()
    first = [
        (0, 1, b"garbage", "k1"),
        (0, 2, None, "k2"),
        (0, 3, b"\xff<script>", ""),
        (1, 0, b"", ""),
    ]
    assert kept(spark, tmp_path / "bad") == first
    run()
    assert kept(spark, tmp_path / "bad") == first
    send(cluster.bootstrap, topic, [b"more", GOOD], partition=1)
    run()
    assert kept(spark, tmp_path / "bad") == [*first, (1, 2, b"more", "")]
    assert open_table(spark, "delta", str(tmp_path / "crawlers")).read().count() == 1


@pytest.mark.full
def test_json_without_a_time_is_kept_and_times_beyond_all_calendars_end_nothing(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("unfit"))
    good = [json.dumps({"ts": time}).encode() for time in (1_672_635_600, "2023-01-02T05:00:00Z")]
    bad = [
        json.dumps({"ts": time}).encode() for time in (None, "soon", 1e300, -1e300, "NaN", 10**18)
    ]
    send(cluster.bootstrap, topic, [*good, *bad, b"{}", b"["])
    job = make_job(
        spark, cluster.bootstrap, topic, tmp_path / "state", "watch", offsets_per_batch=1000,
        json_fields="time=ts,client=,path=,status=", quarantine=tmp_path / "bad",
    )  # fmt: skip
    watch(
        job, late_s=60, minutes_path=str(tmp_path / "minutes"),
        alarms_path=str(tmp_path / "alarms"), rules=(), alarm_topic=None,
    )  # fmt: skip
    assert [value for _, _, value, _ in kept(spark, tmp_path / "bad")] == [*bad, b"{}", b"["]


@pytest.mark.full
def test_killed_after_a_commit_every_record_is_there_once(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("unfit"))
    values = [b"bad %d" % number if number % 3 else GOOD for number in range(900)]
    send(cluster.bootstrap, topic, values)
    arguments = command(
        "crawlers", "--bootstrap", cluster.bootstrap, "--topic", topic,
        "--checkpoint", str(tmp_path / "state"), "--table", str(tmp_path / "crawlers"),
        "--quarantine", str(tmp_path / "bad"), "--max-offsets-per-batch", "100", "--every", "0",
    )  # fmt: skip
    start_and_kill(arguments, lambda: commits(tmp_path / "bad") >= 3, tmp_path / "log")
    done = finish([*arguments, "--once"])
    assert done.returncode == 0, done.stderr[-3000:]
    assert [(offset, value) for _, offset, value, _ in kept(spark, tmp_path / "bad")] == [
        (offset, value) for offset, value in enumerate(values) if value != GOOD
    ]


@pytest.mark.full
def test_killed_before_the_quarantine_had_begun_at_the_end_of_the_topic(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("unfit"))
    send(cluster.bootstrap, topic, [b"before"])
    arguments = command(
        "crawlers", "--bootstrap", cluster.bootstrap, "--topic", topic, "--from", "latest",
        "--checkpoint", str(tmp_path / "state"), "--table", str(tmp_path / "crawlers"),
        "--quarantine", str(tmp_path / "bad"), "--once",
    )  # fmt: skip
    done = finish(arguments)
    assert done.returncode == 0, done.stderr[-3000:]
    # What a kill leaves that comes when the job has begun, and its quarantine has not.
    shutil.rmtree(tmp_path / "state" / "quarantine")
    send(cluster.bootstrap, topic, [b"between", GOOD])
    done = finish(arguments)
    assert done.returncode == 0, done.stderr[-3000:]
    assert [value for _, _, value, _ in kept(spark, tmp_path / "bad")] == [b"between"]
