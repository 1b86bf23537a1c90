"""The last change of each client as a record of a compacted topic: an entry, or its end."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f


def records(changes: DataFrame) -> DataFrame:
    """Returns `key` (the client) and `value`, JSON; null, a tombstone, when the session is over.

    Of several changes in the batch only the last one counts for whoever reads the list.
    """
    latest = Window.partitionBy("client").orderBy(f.desc("seq"))
    entry = f.to_json(
        f.struct(
            f.col("client"),
            (f.col("at_ms") / 1000).cast("bigint").alias("since"),
            (f.col("start_ms") / 1000).cast("bigint").alias("session_start"),
            f.col("requests"),
        )
    )
    return (
        changes.withColumn("newest", f.row_number().over(latest))
        .where(f.col("newest") == 1)
        .select(f.col("client").alias("key"), f.when(f.col("detected"), entry).alias("value"))
    )


def table_rows(changes: DataFrame) -> DataFrame:
    """Returns all changes with times as timestamps: client, state, at, session_start, requests."""
    return changes.select(
        "client",
        f.when(f.col("detected"), "begin").otherwise("end").alias("state"),
        f.timestamp_millis("at_ms").alias("at"),
        f.timestamp_millis("start_ms").alias("session_start"),
        "requests",
    )
