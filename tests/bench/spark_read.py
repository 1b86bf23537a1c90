"""`python -m tests.bench.spark_read`: Spark's batch read of a topic, from Highwater and from Kafka.

All brokers run at the same time, hold the same bytes, and are read in turn by one Spark session
with its own Kafka connector on two threads. A read counts the records and adds up the sizes of
their values; both must match the written data. MB are 10^6 bytes of values.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from tests.bench import load
from tests.bench.peer import Peer
from tests.bench.peer_kafka import KAFKA
from tests.bench.peers import make_peer
from tests.bench.processes import end_orderly_on_sigterm
from tests.conformance.topics import make_topic
from tests.support.maven import CACHE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "spark-read"
PARTITIONS = 12
RECORDS_PER_BATCH = 500
BATCH_BYTES = 512 * 1024  # Records of about 1 KiB, in batches as from a busy producer.
TOPIC_CONFIGS = {"retention.bytes": "-1", "retention.ms": "-1"}
DISK_SLACK_BYTES = 5 * 10**9
DRIVER_MEMORY = "2g"


class ReadFailed(RuntimeError):
    """Spark did not read the records that were written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One broker's reads, in seconds, of `value_bytes` in `records`; loading took `load_s`."""

    name: str
    version: str
    records: int
    value_bytes: int
    load_s: float
    reads_s: tuple[float, ...]

    @property
    def mb_per_s(self) -> float:
        """The median read."""
        return self.value_bytes / median(self.reads_s) / 1e6


def measure(
    spark: SparkSession,
    peers: Sequence[Peer],
    *,
    batches: int,
    pairs: int,
    tell: Callable[[str], None],
) -> list[Result]:
    """Loads every broker, reads each once unmeasured, then `pairs` times in turn."""
    load_s: dict[str, float] = {}
    written: dict[str, tuple[int, int]] = {}
    reads: dict[str, list[float]] = {peer.name: [] for peer in peers}
    for peer in peers:
        make_topic(peer.bootstrap, TOPIC, partitions=PARTITIONS, configs=TOPIC_CONFIGS)
        started = time.monotonic()
        load.send(
            load.Target(bootstrap=peer.bootstrap, topic=TOPIC),
            partitions=PARTITIONS,
            batch_bytes=BATCH_BYTES,
            requests=batches,
            records_per_batch=RECORDS_PER_BATCH,
        )
        load_s[peer.name] = time.monotonic() - started
        tell(f"{peer.name}: {batches * BATCH_BYTES / 1e9:.2f} GB loaded")
        # Also warms the page cache and Java's compiler.
        _, written[peer.name] = read(spark, peer)
    if len(set(written.values())) != 1 or written[peers[0].name][0] != batches * RECORDS_PER_BATCH:
        raise ReadFailed(f"{batches * RECORDS_PER_BATCH} records were written, read: {written}")
    for number in range(pairs):
        # Alternate the order.
        for peer in peers if number % 2 == 0 else reversed(peers):
            seconds, found = read(spark, peer)
            if found != written[peer.name]:
                raise ReadFailed(f"{peer.name}: {found} instead of {written[peer.name]}")
            reads[peer.name].append(seconds)
            tell(f"{peer.name}: {found[1] / seconds / 1e6:,.0f} MB/s")
    return [
        Result(
            name=peer.name,
            version=peer.version(),
            records=written[peer.name][0],
            value_bytes=written[peer.name][1],
            load_s=load_s[peer.name],
            reads_s=tuple(reads[peer.name]),
        )
        for peer in peers
    ]


def read(spark: SparkSession, peer: Peer) -> tuple[float, tuple[int, int]]:
    """Reads the whole topic; returns the seconds, and how many records and bytes there were."""
    from pyspark.sql import functions as f

    from highwater.spark.topic import TopicSource, read_topic

    source = TopicSource(bootstrap=peer.bootstrap, topic=TOPIC)
    started = time.monotonic()
    totals = read_topic(spark, source).agg(
        f.count("*").alias("records"), f.sum(f.octet_length("value")).alias("bytes")
    )
    row = totals.collect()[0]
    return time.monotonic() - started, (row["records"], row["bytes"] or 0)


def show(results: Sequence[Result]) -> Table:
    """One line per broker, with the ratio to Kafka if it was measured."""
    baseline = next((each for each in results if each.name == KAFKA), None)
    table = Table(title=f"Spark's batch read of {results[0].value_bytes / 1e9:.2f} GB")
    for column in ("broker", "MB/s (median)", "slowest", "fastest", "ratio to Kafka"):
        table.add_column(column, justify="left" if column == "broker" else "right")
    for each in results:
        ratio = "" if baseline is None else f"{each.mb_per_s / baseline.mb_per_s:.2f}"
        slowest, fastest = (
            each.value_bytes / s / 1e6 for s in (max(each.reads_s), min(each.reads_s))
        )
        table.add_row(
            each.name, f"{each.mb_per_s:,.0f}", f"{slowest:,.0f}", f"{fastest:,.0f}", ratio
        )
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.spark_read", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=5.0, help="in each broker (5)")
    parser.add_argument("--pairs", type=int, default=3, help="measured reads of each broker (3)")
    parser.add_argument(
        "--peers",
        default="embedded,kafka",
        help="as of tests.bench: embedded, services, kafka, ...",
    )
    options = parser.parse_args(arguments)
    console = Console()
    peers = [make_peer(text) for text in options.peers.split(",")]
    batches = max(PARTITIONS, round(options.gigabytes * 1e9 / BATCH_BYTES))
    _check_disk(len(peers) * batches * BATCH_BYTES)
    load.build()
    from highwater.spark.session import open_session

    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="spark-read-"))
        for peer in peers:
            stack.callback(peer.stop)
            peer.start()
        settings = {
            "spark.driver.memory": DRIVER_MEMORY,
            "spark.local.dir": scratch,
            "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        }
        spark = open_session("spark-read", settings=settings)
        stack.callback(spark.stop)
        results = measure(spark, peers, batches=batches, pairs=options.pairs, tell=console.print)
    console.print(show(results))
    save(results)
    return 0


def save(results: Sequence[Result]) -> None:
    path = CACHE / "bench" / f"spark-read-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(each) for each in results], indent=1))


def _check_disk(needed: int) -> None:
    place = Path(tempfile.gettempdir())
    free = shutil.disk_usage(place).free
    if free < needed + DISK_SLACK_BYTES:
        raise SystemExit(f"spark_read: {free / 1e9:.0f} GB free in {place}, too little")


if __name__ == "__main__":
    end_orderly_on_sigterm()
    sys.exit(main())
