"""The batch read benchmark runs to its end at a small size, and would notice a missing record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from tests.bench import load, spark_read
from tests.bench.peers import make_peer
from tests.support.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.full]


def test_reads_what_was_written(
    cluster: Cluster, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_read, "TOPIC", f"spark-read-{cluster.mode}")
    load.build()
    peer = make_peer(f"external:{cluster.bootstrap}")
    told: list[str] = []
    results = spark_read.measure(spark, [peer], batches=24, pairs=2, tell=told.append)
    (result,) = results
    assert result.records == 24 * spark_read.RECORDS_PER_BATCH
    assert 0.9 < result.value_bytes / (24 * spark_read.BATCH_BYTES) < 1.0
    assert len(result.reads_s) == 2
    assert len(told) == 3
    assert len(spark_read.table([results])) == 1


def test_a_missing_record_is_noticed(
    cluster: Cluster, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_read, "TOPIC", f"spark-read-less-{cluster.mode}")
    load.build()
    peer = make_peer(f"external:{cluster.bootstrap}")
    written = load.send

    def send_less(*arguments: object, requests: int, **options: object) -> object:
        return written(*arguments, requests=requests - 12, **options)

    monkeypatch.setattr(load, "send", send_less)
    with pytest.raises(spark_read.ReadFailed, match="12000 records were written"):
        spark_read.measure(spark, [peer], batches=24, pairs=1, tell=lambda _: None)
