"""Minutes of a stream of requests, closed by the watermark."""

from collections.abc import Iterable
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from highwater.spark.durations import for_spark
from highwater.spark.watch.minute import Minute

PERCENTILES: Final = (50, 95, 99)
ACCURACY: Final = 10_000
"""Of `percentile_approx`: exact for a minute of fewer values, and at most 0.01 % of the ranks off."""

FIRST_ERROR: Final = 500
FIRST_CLIENT_ERROR: Final = 400


def by_minute(events: DataFrame, *, late_s: int) -> DataFrame:
    """Returns one row a minute with the columns of `Minute`, `minute` (a timestamp) for its start.

    Requests more than `late_s` behind the newest one may be left out. A
    minute comes once, when the newest request is that much behind its end. A percentile is the
    smallest value that so many percent of all values do not exceed.
    """
    status = f.col("status")
    client_error = (status >= FIRST_CLIENT_ERROR) & (status < FIRST_ERROR)
    grouped = events.withWatermark("time", for_spark(late_s)).groupBy(f.window("time", "1 minute"))
    return (
        grouped.agg(
            f.count("*").alias("requests"),
            f.count(f.when(status >= FIRST_ERROR, 1)).alias("errors"),
            f.count(f.when(client_error, 1)).alias("client_errors"),
            f.sum("size_bytes").alias("size_bytes"),
            *(_percentile("size_bytes", each).alias(f"size_p{each}") for each in PERCENTILES),
            *(_percentile("latency_ms", each).alias(f"latency_p{each}") for each in PERCENTILES),
        )
        .select(f.col("window.start").alias("minute"), "*")
        .drop("window")
    )


def _percentile(column: str, percent: int) -> Column:
    return f.percentile_approx(column, percent / 100, ACCURACY)


def collect(minutes: DataFrame) -> list[Minute]:
    """Returns the rows of `by_minute` in the order of time."""
    # Collect seconds: PySpark converts timestamps to the machine's local time.
    rows = minutes.withColumn("start_s", f.unix_seconds("minute")).drop("minute").collect()
    return in_order(row.asDict() for row in rows)


def in_order(rows: Iterable[dict[str, Any]]) -> list[Minute]:
    """Returns the minutes of rows, whose names are `Minute`'s, in the order of time."""
    return sorted((Minute(**row) for row in rows), key=lambda minute: minute.start_s)
