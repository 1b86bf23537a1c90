"""What is in a table that a load wrote, and in its quarantine: counts and a few values, for a page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from highwater.spark.load_run import LoadRequest
from highwater.spark.page.time_steps import SECONDS_MAX
from highwater.spark.tables import Table, open_table

HOURS_MAX: Final = 10_000
"""How many hours of topics are looked at, the newest ones: a year of one topic, two weeks of thirty."""

COMPLAINTS_MAX: Final = 50
SAMPLES_MAX: Final = 20
SAMPLE_BYTES_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class HourRows:
    """Rows of one topic whose timestamps are of the hour from `start` (UTC) on."""

    topic: str
    start: datetime
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """Why so many values of a topic did not fit."""

    topic: str
    error: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BadValue:
    """A value in quarantine: its first bytes, read as UTF-8."""

    topic: str
    partition: int
    offset: int
    error: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSummary:
    """`rows` and `bad_rows` count everything, `hours` and `bad_hours` the newest hours, oldest first."""

    rows: int
    bad_rows: int
    hours: tuple[HourRows, ...]
    bad_hours: tuple[HourRows, ...]
    complaints: tuple[Complaint, ...]
    newest_bad: tuple[BadValue, ...]


def summarize(spark: SparkSession, request: LoadRequest) -> LoadSummary:
    """Returns what is there now, of the topics of all loads into the table."""
    table = open_table(spark, request.table_format, request.table)
    rows, hours = _counted(table)
    bad_rows = 0
    bad_hours: tuple[HourRows, ...] = ()
    complaints: tuple[Complaint, ...] = ()
    newest: tuple[BadValue, ...] = ()
    if not request.value_format.always_fits:
        quarantine = open_table(spark, request.table_format, request.quarantine_path)
        bad_rows, bad_hours = _counted(quarantine)
        if bad_rows:
            complaints, newest = _complaints(quarantine.read()), _newest(quarantine.read())
    return LoadSummary(
        rows=rows,
        bad_rows=bad_rows,
        hours=hours,
        bad_hours=bad_hours,
        complaints=complaints,
        newest_bad=newest,
    )


def _counted(table: Table) -> tuple[int, tuple[HourRows, ...]]:
    """All rows, and those of the newest hours. Only partition columns are read."""
    if not table.exists():
        return 0, ()
    groups = table.read().groupBy("topic", _hour().alias("start")).agg(f.count("*").alias("rows"))
    groups = groups.cache()
    try:
        total: Any = groups.agg(f.sum("rows").alias("rows")).first()
        known = groups.where(f.col("start").between(0, SECONDS_MAX))
        newest: list[Any] = known.orderBy(f.desc("start"), "topic").limit(HOURS_MAX).collect()
    finally:
        groups.unpersist()
    return int(total["rows"] or 0), tuple(
        HourRows(
            topic=row["topic"], start=datetime.fromtimestamp(row["start"], UTC), rows=row["rows"]
        )
        for row in reversed(newest)
    )


def _hour() -> Column:
    """Seconds since 1970 of the hour that a row's partition is of."""
    return f.unix_date("date").cast("bigint") * 86_400 + f.col("hour") * 3600


def _complaints(bad: DataFrame) -> tuple[Complaint, ...]:
    groups = bad.groupBy("topic", "error").agg(f.count("*").alias("rows"))
    most = groups.orderBy(f.desc("rows"), "topic", "error").limit(COMPLAINTS_MAX)
    return tuple(Complaint(**row.asDict()) for row in most.collect())


def _newest(bad: DataFrame) -> tuple[BadValue, ...]:
    newest = bad.orderBy(f.desc("timestamp"), "topic", "partition", f.desc("offset"))
    start = f.substring("value", 1, SAMPLE_BYTES_MAX).alias("value")
    rows = newest.select("topic", "partition", "offset", "error", start).limit(SAMPLES_MAX)
    return tuple(
        BadValue(
            topic=row["topic"],
            partition=row["partition"],
            offset=row["offset"],
            error=row["error"],
            value=bytes(row["value"] or b"").decode("utf-8", "replace"),
        )
        for row in rows.collect()
    )
