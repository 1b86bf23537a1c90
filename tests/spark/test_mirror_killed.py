"""A mirror that was killed anywhere, and started again, has copied every record once and in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from tests.conformance.topics import make_topic, unique_name
from tests.support.cluster import Cluster
from tests.support.embedded_cluster import EmbeddedCluster
from tests.support.mirrored_topics import log_ends, mirror_once, read, record, send, transaction
from tests.support.stream_jobs import command, start_and_kill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PARTITIONS = 3
RECORDS = 600
"""Of each partition, in rounds of 100 offsets: as many transactions and syncs as rounds."""
OFFSETS_MAX = 100

MOMENTS = [
    60,
    *(pytest.param(percent, marks=pytest.mark.full) for percent in (0, *range(1, 91, 5), 93)),
]
"""How much of the records is in the copy's log when the driver is killed, in percent; twenty in `make full`."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    made = EmbeddedCluster(tmp_path_factory.mktemp("target"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.mark.anywhere(percent=60)
@pytest.mark.parametrize("percent", MOMENTS)
def test_killed_and_started_again(
    cluster: Cluster, target: EmbeddedCluster, spark: SparkSession, tmp_path: Path, percent: int
) -> None:
    here, there = cluster.bootstrap, target.bootstrap
    topic = make_topic(
        here, unique_name("killed"), partitions=PARTITIONS, configs={"retention.ms": "-1"}
    )
    for number in range(PARTITIONS):
        for first in range(0, RECORDS, 300):
            records = [record(each) for each in range(first, first + 300)]
            send(here, topic, number, records)
            transaction(here, topic, number, records[:50], commit=False)
    arguments = command(
        "mirror", "--source", f"east={here}", "--target", there,
        "--topic", topic, "--max-offsets-per-task", str(OFFSETS_MAX), "--once",
    )  # fmt: skip
    enough = PARTITIONS * RECORDS * percent // 100
    start_and_kill(arguments, lambda: log_ends(there, topic, PARTITIONS) > enough, tmp_path / "log")
    # Records that came since must not make up for lost ones.
    send(here, topic, 0, [record(7777)])
    told = mirror_once(spark, here, there, topic)
    assert read(there, topic, PARTITIONS) == read(here, topic, PARTITIONS)
    # The killed one had ended some transactions; early on they may all have been open.
    assert told.records < PARTITIONS * RECORDS + 1 or percent < 20
