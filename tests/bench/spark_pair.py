"""All rows with one of ours and Kafka beside it, or with one broker alone, while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench import spark_read, spark_scaling
from tests.bench.peer import Peer
from tests.bench.peer_kafka import KAFKA
from tests.bench.spark_comparison import Comparison
from tests.bench.spark_load import Loads
from tests.bench.spark_mirror import Mirrors
from tests.bench.spark_rows import LATENCY, Kind, Row
from tests.bench.spark_stream import Streams, StreamScale
from tests.bench.spark_topics import PARTITIONS, Data, Filled, fill, plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is measured: GB (10^9 bytes) of values in a topic, and measured runs of each broker."""

    gigabytes: float
    pairs: int
    mirror_gigabytes: float = 1.0
    stream: StreamScale = field(default_factory=StreamScale)

    @property
    def disk_bytes(self) -> int:
        """What two brokers and a table need."""
        return round(3 * self.gigabytes * 1e9)

    def notes(self, kind: Kind) -> list[str]:
        """What a reader of the rows needs to know."""
        if kind is Kind.STREAM:
            scale = self.stream
            latency = f"latency at {scale.rate:,.0f} records/s for {scale.seconds:g} s"
            return [f"{latency}, steps of {scale.step_s:g} s, {self.pairs} measured runs of each"]
        gigabytes = self.mirror_gigabytes if kind is Kind.MIRROR else self.gigabytes
        size = f"{gigabytes:g} GB of values of about 1 KiB in {PARTITIONS} partitions"
        return [f"{size}, {self.pairs} measured runs of each"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Brokers that run, and a session that reads from them in turns; lives as long as the brokers."""

    spark: SparkSession
    peers: Sequence[Peer]
    loads: Loads
    streams: Streams
    mirrors: Mirrors
    scratch: Path
    scale: Scale
    tell: Callable[[str], None]

    def measure(self, rows: Sequence[Row]) -> Iterator[tuple[Row, Comparison]]:
        """Measures all rows. Raises ReadFailed, LoadIncomplete; other errors are passed on."""
        for data in Data:
            of_data = [row for row in rows if row.data is data]
            if of_data:
                yield from self._with_data(data, of_data)
        for row in rows:
            if row.data is None:
                for comparison in self._alone(row):
                    yield row, comparison

    def _alone(self, row: Row) -> list[Comparison]:
        """A row that writes topics of its own."""
        if row.name == LATENCY:
            return self.streams.latency(self.peers, row=row.name, pairs=self.scale.pairs)
        if row.kind is Kind.MIRROR:
            target, *source = self.peers
            if not source or source[0].name != KAFKA:
                raise ValueError(f"{row.name} needs {KAFKA} among the peers, and one of ours")
            return self.mirrors.measure(source[0], target, row=row.name, pairs=self.scale.pairs)
        return [self.streams.largest_rate(self.peers, row=row.name, pairs=self.scale.pairs)]

    def _with_data(self, data: Data, rows: Sequence[Row]) -> Iterator[tuple[Row, Comparison]]:
        filled = plan(f"spark-{data}", data, self.scale.gigabytes)
        for peer in self.peers:
            fill(peer, filled)
            self.tell(f"{peer.name}: {filled.records:,} records ({data}) written")
        written = spark_read.verify(self.spark, self.peers, filled)
        for row in rows:
            if row.kind is Kind.READ:
                yield row, spark_read.measure(
                    self.spark, self.peers, filled, written,
                    row=row.name, pairs=self.scale.pairs, tell=self.tell,
                )  # fmt: skip
            elif row.kind is Kind.LOAD:
                yield row, self.loads.measure(
                    self.peers, filled,
                    row=row.name, table_format=row.table_format, pairs=self.scale.pairs,
                )  # fmt: skip
        yield from self._with_workers(filled, [row for row in rows if row.workers])
        for peer in self.peers:
            peer.delete_topic(filled.topic)

    def _with_workers(
        self, filled: Filled, rows: Sequence[Row]
    ) -> Iterator[tuple[Row, Comparison]]:
        found: dict[int, Comparison] = {}
        for row in rows:
            found[row.workers] = spark_scaling.measure(
                self.loads, self.peers, filled, row=row.name, workers=row.workers,
                pairs=self.scale.pairs, scratch=self.scratch, tell=self.tell,
            )  # fmt: skip
            yield row, found[row.workers]
        if found.keys() == {1, 2}:
            for comparison in spark_scaling.speed_ups("workers/2 to 1", found[1], found[2]):
                yield rows[-1], comparison
