"""Spark's batch read of a topic: its own Kafka connector counts the records and adds up their values' sizes.

MB are 10^6 bytes of values. What was read must match what was written, with every broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tests.bench.peer import Peer
from tests.bench.spark_comparison import Comparison, compare, in_turns
from tests.bench.spark_topics import Filled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Ratios to Kafka beside which they ran.
TARGETS: Mapping[str, float] = {"combined": 0.95, "services": 0.7, "embedded": 0.95}


class ReadFailed(RuntimeError):
    """Spark did not read the records that were written."""


class Found(NamedTuple):
    """What a read found."""

    records: int
    value_bytes: int


def verify(spark: SparkSession, peers: Sequence[Peer], filled: Filled) -> Found:
    """Reads every broker's topic once, which also warms the page cache. Raises ReadFailed."""
    found = {peer.name: read(spark, peer, filled.topic)[1] for peer in peers}
    if len(set(found.values())) != 1 or found[peers[0].name].records != filled.records:
        raise ReadFailed(f"{filled.records} records were written, read: {found}")
    return found[peers[0].name]


def measure(
    spark: SparkSession,
    peers: Sequence[Peer],
    filled: Filled,
    written: Found,
    *,
    row: str,
    pairs: int,
    tell: Callable[[str], None],
) -> Comparison:
    """Reads the topic of each broker `pairs` times in turn. Raises ReadFailed."""

    def run(peer: Peer) -> float:
        seconds, found = read(spark, peer, filled.topic)
        if found != written:
            raise ReadFailed(f"{peer.name}: {found} instead of {written}")
        rate = written.value_bytes / seconds / 1e6
        tell(f"{row}, {peer.name}: {rate:,.0f} MB/s")
        return rate

    return compare(row, "MB/s", peers, in_turns(peers, pairs, run), targets=TARGETS)


def read(spark: SparkSession, peer: Peer, topic: str) -> tuple[float, Found]:
    """Reads the whole topic; returns the seconds, and how many records and bytes there were."""
    from pyspark.sql import functions as f

    from highwater.spark.topic import TopicSource, read_topic

    source = TopicSource(bootstrap=peer.bootstrap, topic=topic)
    started = time.monotonic()
    totals = read_topic(spark, source).agg(
        f.count("*").alias("records"), f.sum(f.octet_length("value")).alias("bytes")
    )
    row = totals.collect()[0]
    return time.monotonic() - started, Found(row["records"], row["bytes"] or 0)
