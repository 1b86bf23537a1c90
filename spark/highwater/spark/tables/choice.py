"""Which table a path and the name of a format mean."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from highwater.spark.tables.delta import DeltaTable
from highwater.spark.tables.formats import TableFormat, refuse_others
from highwater.spark.tables.hadoop_files import HadoopFiles
from highwater.spark.tables.iceberg import IcebergTable
from highwater.spark.tables.parquet import ParquetTable
from highwater.spark.tables.port import Table, TableMisfit

OBJECT_STORES: Final = frozenset(
    {"s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "oss", "cosn", "obs", "swift"}
)
"""Schemes of stores where a rename is many copies: a kill leaves half of a commit, and two can mix."""


def open_table(
    spark: SparkSession, table_format: str, path: str, *, partition_by: Sequence[str] = ()
) -> Table:
    """Returns the table at `path`, which need not exist yet.

    `partition_by` names columns of the rows, and matters to the first commit only, but for Parquet
    to all. Raises ValueError for a format that `TableFormat` does not have, TableMisfit for a store that
    cannot hold the format's commits, and for a path with a table of another format.
    """
    scheme = urlsplit(path).scheme.lower()
    if scheme in OBJECT_STORES and table_format != TableFormat.DELTA:
        raise TableMisfit(
            f"{path} is in an object store, where a rename is not atomic, and a commit of {table_format} is "
            "a rename: use delta there, or HDFS"
        )
    chosen = TableFormat(table_format)
    # Commits look, too, under their lock; here it is before anything was read for the table.
    refuse_others(HadoopFiles(spark, path), path, chosen)
    match chosen:
        case TableFormat.DELTA:
            return DeltaTable(spark, path, partition_by)
        case TableFormat.ICEBERG:
            return IcebergTable(spark, path, partition_by)
        case TableFormat.PARQUET:
            return ParquetTable(spark, path, partition_by)
