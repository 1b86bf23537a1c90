"""Rows of loaded records: where a record stood, what surrounded its value, and the value as parsed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from highwater.spark.value_format import ValueFormat, parse

PARTITION_BY: Final = ("topic", "date", "hour")
"""By the day and the hour of the record's timestamp, in UTC."""

_PLACE: Final = ("topic", "date", "hour", "topic_id", "partition", "offset", "timestamp")
COLUMNS: Final = (*_PLACE, "timestamp_type", "key", "headers", "value")
QUARANTINE_COLUMNS: Final = (*_PLACE, "error", "key", "headers", "value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Rows whose values fit the format, and those for the quarantine, with the value as it was."""

    good: DataFrame
    bad: DataFrame


def shape(records: DataFrame, topic_ids: Mapping[str, str], wanted: ValueFormat) -> DataFrame:
    """Returns records of `topic_range.RECORD` with the columns of both tables; `parsed` and `value`."""
    found = parse(wanted, f.col("value"))
    return placed(records, topic_ids).select(
        *_PLACE,
        f.col("timestampType").alias("timestamp_type"),
        "key",
        "headers",
        "value",
        found.value.alias("parsed"),
        found.error.alias("error"),
    )


def placed(records: DataFrame, topic_ids: Mapping[str, str]) -> DataFrame:
    """Returns records with the columns of their place that the connector does not give."""
    return records.withColumns(
        {
            "date": f.to_date("timestamp"),
            "hour": f.hour("timestamp"),
            "topic_id": _topic_id(topic_ids),
        }
    )


def split(shaped: DataFrame) -> Split:
    """Returns the rows of the two tables."""
    good = shaped.where(f.col("error").isNull()).drop("value").withColumnRenamed("parsed", "value")
    bad = shaped.where(f.col("error").isNotNull())
    return Split(good=good.select(*COLUMNS), bad=bad.select(*QUARANTINE_COLUMNS))


def _topic_id(topic_ids: Mapping[str, str]) -> Column:
    if not topic_ids:
        return f.lit("")
    pairs = [f.lit(word) for pair in sorted(topic_ids.items()) for word in pair]
    return f.element_at(f.create_map(*pairs), f.col("topic"))
