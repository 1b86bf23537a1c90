"""The crawlers job on a real broker: detections and ends equal to what plain Python computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from pyspark.sql import functions as f

from highwater.spark.crawlers.sessions import Limits
from highwater.spark.jobs.crawlers import detect_crawlers
from highwater.spark.tables import open_table
from tests.conformance.topics import make_topic, unique_name
from tests.support.cluster import Cluster
from tests.support.crawled_sample import expected
from tests.support.stream_jobs import (
    command,
    commits,
    finish,
    latest,
    make_job,
    read_all,
    start_and_kill,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

REQUESTS = 15
WITHIN_S = 60
GAP_S = 2 * 3600
LATE_S = 24 * 3600

LIMITS = {"requests": REQUESTS, "within_s": WITHIN_S, "gap_s": GAP_S, "late_s": LATE_S}


def assert_right(spark: SparkSession, bootstrap: str, blocked: str, tmp_path: Path) -> None:
    rows = (
        open_table(spark, "delta", str(tmp_path / "crawlers"))
        .read()
        .select(
            "client", "state", f.unix_seconds("at"), f.unix_seconds("session_start"), "requests"
        )
        .collect()
    )
    wanted, entries = expected(**LIMITS)
    assert sorted(map(tuple, rows)) == wanted
    assert {state for _, state, *_ in wanted} == {"begin", "end"}
    assert entries
    found = {key: json.loads(value) for key, value in latest(read_all(bootstrap, blocked)).items()}
    assert {client: entry["since"] for client, entry in found.items()} == entries


def test_crawlers_of_the_sample(
    cluster: Cluster, spark: SparkSession, sample_topic: str, tmp_path: Path
) -> None:
    blocked = make_topic(cluster.bootstrap, unique_name("blocked"))
    job = make_job(
        spark,
        cluster.bootstrap,
        sample_topic,
        tmp_path / "state",
        "crawlers",
        offsets_per_batch=4000,
        html=tmp_path / "crawlers.html",
    )
    detect_crawlers(
        job,
        Limits(requests=REQUESTS, within_ms=WITHIN_S * 1000, gap_ms=GAP_S * 1000),
        late_s=LATE_S,
        table_path=str(tmp_path / "crawlers"),
        block_list=blocked,
    )
    assert_right(spark, cluster.bootstrap, blocked, tmp_path)
    page = (tmp_path / "crawlers.html").read_text()
    rows, entries = expected(**LIMITS)
    assert page.count("<svg") == 3
    assert page.count("<td>on the list</td>") == len(entries)
    assert all(f"<td>{client}</td>" in page for client, *_ in rows)


@pytest.mark.full
def test_killed_in_a_batch_every_row_is_there_once(
    cluster: Cluster, spark: SparkSession, sample_topic: str, tmp_path: Path
) -> None:
    blocked = make_topic(cluster.bootstrap, unique_name("blocked"))
    arguments = command(
        "crawlers", "--bootstrap", cluster.bootstrap, "--topic", sample_topic, "--late", "1 day",
        "--checkpoint", str(tmp_path / "state"), "--table", str(tmp_path / "crawlers"),
        "--block-list", blocked, "--requests", str(REQUESTS), "--within", str(WITHIN_S),
        "--gap", str(GAP_S), "--max-offsets-per-batch", "3000", "--every", "0",
    )  # fmt: skip
    start_and_kill(arguments, lambda: commits(tmp_path / "crawlers") >= 3, tmp_path / "log")
    done = finish([*arguments, "--once"])
    assert done.returncode == 0, done.stderr[-3000:]
    assert_right(spark, cluster.bootstrap, blocked, tmp_path)
