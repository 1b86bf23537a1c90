"""The ranking job on a real broker: every rank of every window equal to what plain Python computes."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from pyspark.sql import functions as f

from highwater.spark.jobs.ranking import rank
from highwater.spark.ranking.windows import RankingOptions
from highwater.spark.tables import open_table
from tests.conformance.topics import make_topic, unique_name
from tests.support.cluster import Cluster
from tests.support.kill_moments import DELAYS_S, kill_moments, third_commit
from tests.support.stream_jobs import (
    command,
    finish,
    latest,
    make_job,
    read_all,
    sample_events,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OFFSETS_PER_BATCH = {1: 3000, 20: 250}
"""By kills: more of them need more batches."""

HOUR_S = 3600
LATE_S = 24 * HOUR_S
TOP = 5
MORE_DELAY_S = 0.6
"""A ranking has one table, and so one moment less than `watch` for each delay."""
SITES = ("semicomplete.com", "www.semicomplete.com")
OPTIONS = RankingOptions(
    window_s=6 * HOUR_S, slide_s=2 * HOUR_S, late_s=LATE_S, top=TOP, items="^/[a-z]+/", sites=SITES
)

Row = tuple[int, int, int, str, int, int, float | None]


def expected() -> list[Row]:
    """window start and end, rank, item, views, clicks, click-through of all closed windows."""
    views: dict[int, Counter[str]] = defaultdict(Counter)
    clicks: dict[int, Counter[str]] = defaultdict(Counter)
    events = sample_events()
    for event in events:
        if event.status >= 400:
            continue
        time_s = int(event.time.timestamp())
        newest_s = time_s // (2 * HOUR_S) * 2 * HOUR_S
        for start_s in (newest_s, newest_s - 2 * HOUR_S, newest_s - 4 * HOUR_S):
            views[start_s][event.path] += 1
            if event.referrer_host in SITES:
                clicks[start_s][event.referrer_path] += 1
    watermark_s = int(events[-1].time.timestamp()) - LATE_S
    rows: list[Row] = []
    for start_s in sorted(start_s for start_s in views if start_s + 6 * HOUR_S <= watermark_s):
        items = [item for item in {*views[start_s], *clicks[start_s]} if _is_item(item)]
        items.sort(key=lambda item: (-views[start_s][item], -clicks[start_s][item], item))
        for number, item in enumerate(items[:TOP], start=1):
            seen, went_on = views[start_s][item], clicks[start_s][item]
            rate = went_on / seen if seen else None
            rows.append((start_s, start_s + 6 * HOUR_S, number, item, seen, went_on, rate))
    return rows


def _is_item(path: str) -> bool:
    first, slash, _ = path[1:].partition("/")
    return bool(
        path.startswith("/") and slash and first.isascii() and first.isalpha() and first.islower()
    )


def assert_right(spark: SparkSession, bootstrap: str, board: str, tmp_path: Path) -> None:
    rows = (
        open_table(spark, "delta", str(tmp_path / "ranking"))
        .read()
        .select(
            f.unix_seconds("window_start"), f.unix_seconds("window_end"),
            "rank", "item", "views", "clicks", "click_through",
        )
        .collect()
    )  # fmt: skip
    wanted = expected()
    assert len(wanted) > 100
    assert sorted(map(tuple, rows)) == wanted
    newest_s = wanted[-1][0]
    found = {key: json.loads(value) for key, value in latest(read_all(bootstrap, board)).items()}
    assert {
        key: (each["window_start"], each["item"], each["views"]) for key, each in found.items()
    } == {
        str(number): (start_s, item, seen)
        for start_s, _, number, item, seen, _, _ in wanted
        if start_s == newest_s
    }


def test_ranks_of_the_sample(
    cluster: Cluster, spark: SparkSession, sample_topic: str, tmp_path: Path
) -> None:
    board = make_topic(cluster.bootstrap, unique_name("board"))
    job = make_job(
        spark,
        cluster.bootstrap,
        sample_topic,
        tmp_path / "state",
        "ranking",
        offsets_per_batch=4000,
        html=tmp_path / "ranking.html",
    )
    rank(job, OPTIONS, table_path=str(tmp_path / "ranking"), board_topic=board)
    assert_right(spark, cluster.bootstrap, board, tmp_path)
    page = (tmp_path / "ranking.html").read_text()
    _, _, _, leader, views, *_ = [row for row in expected() if row[2] == 1][-1]
    assert f'<td>{leader}</td><td class="number">{views}</td>' in page
    assert page.count("<svg") == 3


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.anywhere(kills=1)
@pytest.mark.parametrize("kills", OFFSETS_PER_BATCH)
def test_killed_in_batches_every_row_is_there_once(
    cluster: Cluster, spark: SparkSession, sample_topic: str, tmp_path: Path, kills: int
) -> None:
    board = make_topic(cluster.bootstrap, unique_name("board"))
    arguments = command(
        "ranking", "--bootstrap", cluster.bootstrap, "--topic", sample_topic, "--late", "1 day",
        "--checkpoint", str(tmp_path / "state"), "--table", str(tmp_path / "ranking"),
        "--board-topic", board, "--window", "6 hours", "--slide", "2 hours", "--top", str(TOP),
        "--items", OPTIONS.items, "--site", SITES[0], "--site", SITES[1],
        "--max-offsets-per-batch", str(OFFSETS_PER_BATCH[kills]), "--every", "0",
    )  # fmt: skip
    moments = kill_moments(
        tmp_path / "state", tmp_path / "ranking", delays_s=(*DELAYS_S, MORE_DELAY_S)
    )
    if kills == 1:
        moments = [third_commit(tmp_path / "ranking")]
    assert len(moments) == kills
    for moment in moments:
        moment.kill(arguments, tmp_path / "log")
    done = finish([*arguments, "--once"])
    assert done.returncode == 0, done.stderr[-3000:]
    assert_right(spark, cluster.bootstrap, board, tmp_path)
