"""All rows with one of ours and Kafka beside it, or with one broker alone, while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.bench import spark_read
from tests.bench.peer import Peer
from tests.bench.spark_comparison import Comparison
from tests.bench.spark_load import Loads
from tests.bench.spark_rows import Kind, Row
from tests.bench.spark_topics import PARTITIONS, Data, fill, plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is measured: GB (10^9 bytes) of values in a topic, and measured runs of each broker."""

    gigabytes: float
    pairs: int

    @property
    def disk_bytes(self) -> int:
        """What two brokers and a table need."""
        return round(3 * self.gigabytes * 1e9)

    def notes(self, kind: Kind) -> list[str]:
        """What a reader of the rows needs to know."""
        assert kind in Kind
        size = f"{self.gigabytes:g} GB of values of about 1 KiB in {PARTITIONS} partitions"
        return [f"{size}, {self.pairs} measured runs of each"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Brokers that run, and a session that reads from them in turns; lives as long as the brokers."""

    spark: SparkSession
    peers: Sequence[Peer]
    loads: Loads
    scale: Scale
    tell: Callable[[str], None]

    def measure(self, rows: Sequence[Row]) -> Iterator[tuple[Row, Comparison]]:
        """Measures all rows. Raises ReadFailed, LoadIncomplete; other errors are passed on."""
        for data in Data:
            of_data = [row for row in rows if row.data is data]
            if of_data:
                yield from self._with_data(data, of_data)

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
        for peer in self.peers:
            peer.delete_topic(filled.topic)
