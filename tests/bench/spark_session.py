"""The Spark session of the measurements, its scratch directory, and how much disk they may need."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DISK_SLACK_BYTES = 5 * 10**9
SETTINGS = {
    "spark.driver.memory": "2g",
    # The generator repeats one batch: as a dictionary, a table of it would be next to nothing.
    "spark.hadoop.parquet.enable.dictionary": "false",
    # Commits and offsets of all batches of a stream stay, to be read when it has ended.
    "spark.sql.streaming.minBatchesToRetain": "1000000",
}


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """A directory for tables and checkpoints, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="spark-bench-") as name:
        yield Path(name)


@contextlib.contextmanager
def bench_session(scratch: Path) -> Iterator[SparkSession]:
    """A local session on two threads, with the connector's jars. Raises ConnectorMissing."""
    from highwater.spark.session import open_session

    settings = {
        **SETTINGS,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    spark = open_session("spark-bench", settings=settings)
    try:
        yield spark
    finally:
        spark.stop()


def check_disk(needed: int) -> None:
    """Ends the program if the temporary directory has too little room for `needed` bytes."""
    place = Path(tempfile.gettempdir())
    free = shutil.disk_usage(place).free
    if free < needed + DISK_SLACK_BYTES:
        raise SystemExit(f"spark_bench: {free / 1e9:.0f} GB free in {place}, too little")
