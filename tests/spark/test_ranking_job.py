"""The ranking job on a real broker: every rank of every window equal to what plain Python computes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.model.errors import UsageError
from highwater.spark.jobs.ranking import check_items, rank
from highwater.spark.ranking.windows import RankingOptions
from tests.conformance.topics import make_topic, unique_name
from tests.support import ranked_sample
from tests.support.cluster import Cluster
from tests.support.kill_moments import DELAYS_S, kill_moments, third_commit
from tests.support.ranked_sample import HOUR_S, ITEMS, LATE_S, SITES, TOP, assert_right, expected
from tests.support.stream_jobs import command, finish, make_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OFFSETS_PER_BATCH = {1: 3000, 20: 250}
"""By kills: more of them need more batches."""

MORE_DELAY_S = 0.6
"""A ranking has one table, and so one moment less than `watch` for each delay."""
OPTIONS = RankingOptions(
    window_s=6 * HOUR_S, slide_s=2 * HOUR_S, late_s=LATE_S, top=TOP, items=ITEMS, sites=SITES
)


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
        *ranked_sample.arguments(
            cluster.bootstrap, sample_topic, board, tmp_path,
            offsets_per_batch=OFFSETS_PER_BATCH[kills],
        )
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


def test_items_that_are_no_expression_of_javas(spark: SparkSession) -> None:
    check_items(spark, ITEMS)
    with pytest.raises(UsageError, match=r"^--items is no expression: .*Unclosed group"):
        check_items(spark, "(")
