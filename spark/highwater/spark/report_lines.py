"""Where a report's requests come from: a topic with lines, or a table that `load` made of one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, StringType, StructType

from highwater.spark.brokers import Brokers
from highwater.spark.combined_log import SIZE_BYTES_MAX
from highwater.spark.combined_log_columns import LineColumns, in_reach
from highwater.spark.tables import open_table
from highwater.spark.tables.port import TableMisfit
from highwater.spark.topic import TopicSource, read_topic, with_headers

COLUMNS: Final = ("time", "path", "status", "size_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    """A table, and its quarantine, which need not be there.

    With `topic`, only rows of this topic are read; with `headers`, only rows with all of these headers.
    """

    table: str
    table_format: str
    quarantine: str
    topic: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def read_lines(spark: SparkSession, source: TopicSource | TableSource) -> DataFrame:
    """Returns time (null if a record is not in the format), path, status and size_bytes.

    Raises TopicMissing, BrokersAway, TableMisfit.
    """
    if isinstance(source, TableSource):
        return _of_table(spark, source)
    with Brokers(spark, source.bootstrap, source.kafka) as brokers:
        # Spark's own words for a missing topic are many, and come late.
        brokers.topics([source.topic])
    return parse_lines(read_topic(spark, source))


def parse_lines(records: DataFrame) -> DataFrame:
    """Returns the four columns of records whose `value` is a line."""
    columns = LineColumns(f.col("value").cast("string"))
    return records.select(
        columns.time.alias("time"),
        columns.path.alias("path"),
        columns.status.alias("status"),
        columns.size_bytes.alias("size_bytes"),
    )


def _of_table(spark: SparkSession, source: TableSource) -> DataFrame:
    rows = _wanted(open_table(spark, source.table_format, source.table).read(), source)
    found = _parsed(rows, source.table)
    quarantine = open_table(spark, source.table_format, source.quarantine)
    if not quarantine.exists():
        return found
    # Nothing there is in the format; each counts as a record that is not.
    bad = _wanted(quarantine.read(), source)
    kinds = {each.name: each.dataType for each in found.schema}
    return found.unionByName(
        bad.select(*(f.lit(None).cast(kinds[name]).alias(name) for name in COLUMNS))
    )


def _parsed(rows: DataFrame, table: str) -> DataFrame:
    """The columns that `load --format combined-log` has parsed, or those of raw values."""
    kind = rows.schema["value"].dataType if "value" in rows.columns else None
    if isinstance(kind, StructType) and set(COLUMNS) <= set(kind.names):
        found = rows.select(*(f.col(f"value.{name}").alias(name) for name in COLUMNS))
        # Older loads took any time that Spark can read, and sizes of 18 digits.
        is_small = f.coalesce(f.col("size_bytes"), f.lit(0)) <= SIZE_BYTES_MAX
        return found.withColumn("time", f.when(is_small, in_reach(f.col("time"))))
    if isinstance(kind, BinaryType | StringType):
        return parse_lines(rows)
    raise TableMisfit(f"{table} has no log lines; load it with --format combined-log")


def _wanted(rows: DataFrame, source: TableSource) -> DataFrame:
    of_topic = rows if source.topic is None else rows.where(f.col("topic") == source.topic)
    return with_headers(of_topic, source.headers)
