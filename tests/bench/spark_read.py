"""`python -m tests.bench.spark_read`: Spark's batch read of a topic, from Highwater and from Kafka.

Each of ours runs beside Apache Kafka, with the same bytes, which one Spark session reads from both in
turn with its own Kafka connector on two threads. A read counts the records and adds up the sizes of
their values; both must match the written data. MB are 10^6 bytes of values. Only two brokers run at
a time: the page cache of a small machine could not hold the data of more.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Console

from tests.bench import load
from tests.bench.command_line import command_of, parser_of, teller
from tests.bench.document import (
    DOCUMENT,
    Section,
    machine,
    markdown_table,
    rich_table,
    save_json,
    with_target,
    write_section,
)
from tests.bench.peer import Peer
from tests.bench.peer_kafka import KAFKA
from tests.bench.peers import make_peer
from tests.bench.processes import end_orderly_on_sigterm
from tests.conformance.topics import make_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODULE = "tests.bench.spark_read"
SECTION = Section(name="Spark's batch read", target="bench-spark")
HEADER = ["broker", "MB/s (median)", "slowest", "fastest", "ratio to Kafka"]
DEFAULT_PEERS = "combined,services,embedded,kafka"
# Ratios to Kafka beside which they ran.
TARGETS: Mapping[str, float] = {"combined": 0.95, "services": 0.7, "embedded": 0.95}
TOPIC = "spark-read"
PARTITIONS = 12
RECORDS_PER_BATCH = 500
BATCH_BYTES = 512 * 1024  # Records of about 1 KiB, in batches as from a busy producer.
TOPIC_CONFIGS = {"retention.bytes": "-1", "retention.ms": "-1"}
QUICK_GIGABYTES = 0.1
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

    def ratio(self, baseline: Result) -> float:
        """The median ratio of rates over all pairs of reads."""
        pairs = zip(self.reads_s, baseline.reads_s, strict=True)
        return median(theirs / ours for ours, theirs in pairs)


def pair_up(names: Sequence[str]) -> list[list[str]]:
    """The brokers that run at the same time: each with Kafka, if that is among the names."""
    ours = [name for name in names if name != KAFKA]
    if KAFKA not in names:
        return [[name] for name in ours]
    return [[name, KAFKA] for name in ours] or [[KAFKA]]


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


def table(pairs: Sequence[Sequence[Result]]) -> list[list[str]]:
    """One line for each broker of each pair; see HEADER."""
    lines = []
    for results in pairs:
        baseline = next((each for each in results if each.name == KAFKA), None)
        for each in results:
            rates = [each.value_bytes / seconds / 1e6 for seconds in each.reads_s]
            ratio = "-"
            if baseline is not None and each is not baseline:
                ratio = with_target(each.ratio(baseline), TARGETS.get(each.name))
            name = f"{KAFKA} beside {results[0].name}" if each is baseline else each.name
            lines.append(
                [name, f"{each.mb_per_s:,.0f}", f"{min(rates):,.0f}", f"{max(rates):,.0f}", ratio]
            )
    return lines


def markdown(command: str, pairs: Sequence[Sequence[Result]]) -> str:
    """The section of docs/benchmarks.md."""
    found = [each for results in pairs for each in results]
    parts = [f"Command: `{command}`", "", *(f"- {line}" for line in machine())]
    versions = {each.name: each.version for each in found}
    parts += [f"- {name}: {version}" for name, version in versions.items()]
    parts.append(
        f"- {found[0].records:,} records with {found[0].value_bytes / 1e9:.2f} GB of values in "
        f"{PARTITIONS} partitions, {len(found[0].reads_s)} measured reads of each broker"
    )
    return "\n".join([*parts, "", *markdown_table(HEADER, table(pairs))]) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0; errors of a broker or of Spark are passed on."""
    options = _parser().parse_args(arguments)
    console = Console()
    pairs = [[make_peer(text) for text in names] for names in pair_up(options.peers.split(","))]
    gigabytes = QUICK_GIGABYTES if options.quick else options.gigabytes
    batches = max(PARTITIONS, round(gigabytes * 1e9 / BATCH_BYTES))
    _check_disk(max(map(len, pairs)) * batches * BATCH_BYTES)
    load.build()
    from highwater.spark.session import open_session

    results = []
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="spark-read-"))
        settings = {
            "spark.driver.memory": DRIVER_MEMORY,
            "spark.local.dir": scratch,
            "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        }
        spark = open_session("spark-read", settings=settings)
        stack.callback(spark.stop)
        for peers in pairs:
            with contextlib.ExitStack() as running:
                for peer in peers:
                    running.callback(peer.stop)
                    peer.start()
                reads = 1 if options.quick else options.pairs
                results.append(
                    measure(spark, peers, batches=batches, pairs=reads, tell=teller(console))
                )
    console.print(rich_table("Spark's batch read", HEADER, table(results)))
    command = command_of(MODULE, arguments)
    content = {
        "command": command,
        "machine": machine(),
        "pairs": [[asdict(each) for each in found] for found in results],
    }
    console.print(f"Every read: {save_json('spark-read-', content)}")
    if options.write_document:
        write_section(DOCUMENT, SECTION, markdown(command, results))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = parser_of(MODULE, __doc__, quick=f"one read of {QUICK_GIGABYTES} GB")
    parser.add_argument("--gigabytes", type=float, default=5.0, help="in each broker (5)")
    parser.add_argument("--pairs", type=int, default=5, help="measured reads of each broker (5)")
    parser.add_argument(
        "--peers", default=DEFAULT_PEERS, help=f"as of tests.bench ({DEFAULT_PEERS})"
    )
    return parser


def _check_disk(needed: int) -> None:
    place = Path(tempfile.gettempdir())
    free = shutil.disk_usage(place).free
    if free < needed + DISK_SLACK_BYTES:
        raise SystemExit(f"spark_read: {free / 1e9:.0f} GB free in {place}, too little")


if __name__ == "__main__":
    end_orderly_on_sigterm()
    sys.exit(main())
