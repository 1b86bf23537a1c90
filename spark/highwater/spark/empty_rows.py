"""Data frames without rows that Spark makes without a Python worker on any executor."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType


def empty_rows(spark: SparkSession, columns: StructType) -> DataFrame:
    """Returns no rows, of these columns, all of which may be null."""
    return spark.range(0).select(
        *(f.lit(None).cast(each.dataType).alias(each.name) for each in columns.fields)
    )
