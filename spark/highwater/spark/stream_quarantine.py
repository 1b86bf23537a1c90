"""What a stream leaves out because it is not in the format or ahead of its time, kept as a load keeps it.

It is a query of its own with a checkpoint of its own, beside that of the job: rows that are grouped and
counted no longer know their records. So the topic is read twice.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from highwater.spark.envelope import QUARANTINE_COLUMNS, placed
from highwater.spark.events import EventFormat, error_of
from highwater.spark.tables import Table

CHECKPOINT: Final = "quarantine"
"""The directory of Spark's files inside the job's checkpoint."""


def unfit(records: DataFrame, wanted: EventFormat, *, topic: str, topic_id: str) -> DataFrame:
    """Returns the records that have no event, tombstones too, with the columns of a quarantine."""
    error = error_of(f.col("value"), f.col("timestamp"), wanted)
    bad = records.withColumn("error", error).where(f.col("error").isNotNull())
    return placed(bad, {topic: topic_id}).select(*QUARANTINE_COLUMNS)


class QuarantineSink:
    """Commits batches to the table under the stream's writer; batches come one at a time."""

    def __init__(self, table: Table, writer: str) -> None:
        self._table = table
        self._writer = writer

    def add(self, rows: DataFrame, batch: int) -> None:
        """Adds a batch, once however often it comes. Most batches have no rows, and no commit."""
        if not rows.isEmpty():
            self._table.commit(rows, writer=self._writer, version=batch, note="")
