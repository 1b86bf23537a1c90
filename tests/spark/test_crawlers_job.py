"""The crawlers job on a real broker: detections and ends equal to what plain Python computes."""

from __future__ import annotations

import json
from collections import defaultdict
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
from tests.support.stream_jobs import (
    command,
    commits,
    finish,
    latest,
    make_job,
    read_all,
    sample_events,
    start_and_kill,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

REQUESTS = 15
WITHIN_S = 60
GAP_S = 2 * 3600
LATE_S = 24 * 3600

Row = tuple[str, str, int, int, int]


def expected() -> tuple[list[Row], dict[str, int]]:
    """(client, state, at, session start, requests), and the entries that stay: client -> since.

    Counted session by session, not as the job does it.
    """
    by_client: dict[str, list[int]] = defaultdict(list)
    events = sample_events()
    for event in events:
        by_client[event.client].append(int(event.time.timestamp()))
    watermark_s = int(events[-1].time.timestamp()) - LATE_S
    rows: list[Row] = []
    entries: dict[str, int] = {}
    for client, times in by_client.items():
        breaks = [i for i in range(1, len(times)) if times[i] - times[i - 1] > GAP_S]
        for first, end in zip([0, *breaks], [*breaks, len(times)], strict=True):
            session = times[first:end]
            full = range(REQUESTS - 1, len(session))
            hit = [i for i in full if session[i] - session[i - REQUESTS + 1] <= WITHIN_S]
            if not hit:
                continue
            rows.append((client, "begin", session[hit[0]], session[0], hit[0] + 1))
            over_s = session[-1] + GAP_S
            if end < len(times) or over_s < watermark_s:
                rows.append((client, "end", over_s, session[0], len(session)))
            else:
                entries[client] = session[hit[0]]
    return sorted(rows), entries


def assert_right(spark: SparkSession, bootstrap: str, blocked: str, tmp_path: Path) -> None:
    rows = (
        open_table(spark, "delta", str(tmp_path / "crawlers"))
        .read()
        .select(
            "client", "state", f.unix_seconds("at"), f.unix_seconds("session_start"), "requests"
        )
        .collect()
    )
    wanted, entries = expected()
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
    rows, entries = expected()
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
