"""The reads and loads of the benchmark run to their end at a small size, and would notice a missing record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from tests.bench import load, spark_read, spark_topics
from tests.bench.peers import make_peer
from tests.bench.spark_load import LoadIncomplete, Loads
from tests.bench.spark_mirror import Mirrors
from tests.bench.spark_pair import Pair, Scale
from tests.bench.spark_rows import select
from tests.bench.spark_stream import Streams
from tests.support.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.full]


def test_reads_and_loads_what_was_written(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    load.build()
    told: list[str] = []
    scale = Scale(gigabytes=0.01, pairs=2)
    pair = Pair(
        spark=spark,
        peers=[make_peer(f"external:{cluster.bootstrap}")],
        loads=Loads(spark, tmp_path, told.append),
        streams=Streams(spark, tmp_path, scale.stream, told.append),
        mirrors=Mirrors(spark, tmp_path, 0.0, told.append),
        scratch=tmp_path,
        scale=scale,
        tell=told.append,
    )
    rows = select(["read/*", "load/*"])
    found = list(pair.measure(rows))
    assert [row for row, _ in found] == list(rows)
    assert all(len(comparison.ours.values) == 2 for _, comparison in found)
    assert len(told) == 2 * len(rows) + 2
    assert list(tmp_path.iterdir()) == []


def test_a_missing_record_is_noticed(cluster: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    load.build()
    peer = make_peer(f"external:{cluster.bootstrap}")
    filled = spark_topics.plan(f"spark-less-{cluster.mode}", spark_topics.Data.PLAIN, 0.0)
    spark_topics.fill(peer, filled)
    more = spark_topics.Filled(topic=filled.topic, data=filled.data, batches=filled.batches + 1)
    with pytest.raises(spark_read.ReadFailed, match=f"{more.records} records were written"):
        spark_read.verify(spark, [peer], more)
    with pytest.raises(LoadIncomplete, match=f"{more.records} records were written"):
        Loads(spark, tmp_path, lambda _: None).rows_per_s(peer, more, "parquet")
    peer.delete_topic(filled.topic)
