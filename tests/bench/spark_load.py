"""The job `load` of a whole topic into a new table, Parquet or Delta, within one Spark session.

The time is the job's own: what it asks the brokers first, the rows, the commit; not the session's start.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.bench.peer import Peer
from tests.bench.spark_comparison import Comparison, compare, in_turns
from tests.bench.spark_topics import Filled
from tests.support.spark_loads import request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Ratios to Kafka beside which they ran.
TARGETS: Mapping[str, float] = {"combined": 0.97, "services": 0.7, "embedded": 0.97}


class LoadIncomplete(RuntimeError):
    """A table does not have the rows that were written to the topic."""


class Told(NamedTuple):
    """What the job tells: None if it does not know how many records it loaded."""

    records: int | None
    seconds: float


class Loads:
    """Loads in a session, each into a table of its own below `scratch`, which is removed afterwards."""

    def __init__(self, spark: SparkSession, scratch: Path, tell: Callable[[str], None]) -> None:
        self._spark = spark
        self._scratch = scratch
        self._tell = tell
        self._number = 0
        self._warm: set[str] = set()

    def measure(
        self, peers: Sequence[Peer], filled: Filled, *, row: str, table_format: str, pairs: int
    ) -> Comparison:
        """Loads the topic of each broker `pairs` times in turn. Raises LoadIncomplete.

        The first use of a format in the session begins with one load each that is not measured, in which
        Java compiles what all loads run.
        """

        def run(peer: Peer) -> float:
            rate = self.rows_per_s(peer, filled, table_format)
            self._tell(f"{row}, {peer.name}: {rate:,.0f} rows/s")
            return rate

        if table_format not in self._warm:
            for peer in peers:
                self.rows_per_s(peer, filled, table_format)
            self._warm.add(table_format)
        return compare(row, "rows/s", peers, in_turns(peers, pairs, run), targets=TARGETS)

    def rows_per_s(self, peer: Peer, filled: Filled, table_format: str) -> float:
        """Loads once. Raises LoadIncomplete."""
        from highwater.spark.load_run import LoadRun

        def load(table: Path) -> Told:
            wanted = request(peer.bootstrap, table, filled.topic, table_format=table_format)
            result = LoadRun(self._spark, wanted, lambda _: None).run()
            return Told(records=result.records, seconds=result.seconds)

        return self.checked(peer, filled, table_format, load)

    def checked(
        self, peer: Peer, filled: Filled, table_format: str, load: Callable[[Path], Told]
    ) -> float:
        """Rows/s of a load into a new table, which is looked at and removed. Raises LoadIncomplete."""
        from highwater.spark.tables import open_table

        # A path of its own: Delta remembers what it knows of one.
        self._number += 1
        table = self._scratch / f"table-{self._number}"
        try:
            told = load(table)
            rows = open_table(self._spark, table_format, str(table)).read().count()
        finally:
            shutil.rmtree(table, ignore_errors=True)
        check(peer.name, filled.records, told=told.records, rows=rows)
        return filled.records / told.seconds


def check(name: str, records: int, *, told: int | None, rows: int) -> None:
    """Raises LoadIncomplete unless the job told of all records, and the table has them."""
    if (told, rows) != (records, records):
        raise LoadIncomplete(
            f"{name}: {records} records were written, load told of {told}, the table has {rows}"
        )
