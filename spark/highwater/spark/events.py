"""Records of a topic as requests of a web server: `access_events.AccessEvent` as columns.

Columns: time, client, path, status, size_bytes, referrer_host, referrer_path, latency_ms. Records that
are not in the format have a null time.
"""

from dataclasses import dataclass, fields
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from highwater.model.errors import ConfigError
from highwater.spark import access_events
from highwater.spark.combined_log_columns import LineColumns
from highwater.spark.stream_progress import OBSERVED


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonFields:
    """Names of a JSON record's fields; nested ones as `request.path`. Empty: there is none.

    The time is a number of seconds or milliseconds since 1970, or text in ISO 8601.
    """

    time: str = "time"
    client: str = "client"
    path: str = "path"
    status: str = "status"
    size_bytes: str = "bytes"
    referrer: str = "referrer"
    latency_ms: str = "latency_ms"


MS_FROM: Final = 100_000_000_000
"""Numbers of times from here on are milliseconds: as seconds they would be beyond the year 5000."""

SECONDS_MAX: Final = 253_402_300_799
"""The last second of the year 9999, after which Spark has no timestamps either."""


def parse_fields(text: str) -> JsonFields:
    """Returns the names in a text like `time=ts,latency_ms=took`. Raises ConfigError."""
    names = [field.name for field in fields(JsonFields)]
    pairs = [word.partition("=") for word in text.split(",") if word]
    for name, _, _ in pairs:
        if name not in names:
            raise ConfigError(f"no field {name!r} of an event: {', '.join(names)}")
    return JsonFields(**{name: value.strip() for name, _, value in pairs})


def of_lines(records: DataFrame) -> DataFrame:
    """Returns the events of records whose values are lines in combined log format."""
    columns = LineColumns(f.col("value").cast("string"), access_events.LINE)
    return records.select(
        columns.time.alias("time"),
        columns.group(access_events.CLIENT_GROUP).alias("client"),
        columns.path.alias("path"),
        columns.status.alias("status"),
        columns.size_bytes.alias("size_bytes"),
        *_referrer(columns.group(access_events.REFERRER_GROUP)),
        f.lit(None).cast("double").alias("latency_ms"),
    )


def of_json(records: DataFrame, names: JsonFields) -> DataFrame:
    """Returns the events of records whose values are JSON objects."""
    value = f.col("value").cast("string")

    def text(name: str) -> Column:
        return _json_text(value, name)

    found = records.select(
        text(names.time).alias("time"),
        text(names.client).alias("client"),
        text(names.path).alias("path"),
        text(names.status).alias("status"),
        text(names.size_bytes).alias("size"),
        text(names.referrer).alias("referrer"),
        text(names.latency_ms).alias("latency"),
    )
    return found.select(
        _json_time(f.col("time")).alias("time"),
        f.coalesce("client", f.lit("")).alias("client"),
        f.substring_index(f.coalesce("path", f.lit("")), "?", 1).alias("path"),
        f.coalesce(f.expr("try_cast(status AS int)"), f.lit(0)).alias("status"),
        f.coalesce(f.expr("try_cast(size AS bigint)"), f.lit(0)).alias("size_bytes"),
        *_referrer(f.coalesce("referrer", f.lit(""))),
        f.expr("try_cast(latency AS double)").alias("latency_ms"),
    )


def time_of(value: Column, names: JsonFields | None) -> Column:
    """Returns the time of the request in a value; null if the value is not in the format."""
    text = value.cast("string")
    if names is None:
        return LineColumns(text, access_events.LINE).time
    return _json_time(_json_text(text, names.time))


def _json_text(value: Column, name: str) -> Column:
    return f.get_json_object(value, f"$.{name}") if name else f.lit(None).cast("string")


def _json_time(text: Column) -> Column:
    number = text.try_cast("double")
    seconds = f.when(f.abs(number) >= MS_FROM, number / 1000).otherwise(number)
    # Spark ends the job for a number that no timestamp can have.
    in_reach = f.when(f.abs(seconds) <= SECONDS_MAX, seconds)
    return f.coalesce(
        f.timestamp_millis(f.round(in_reach * 1000).cast("bigint")), text.try_cast("timestamp")
    )


def of_records(records: DataFrame, names: JsonFields | None) -> DataFrame:
    """Returns the events, of JSON with these names or of lines; others are counted and left out."""
    events = of_lines(records) if names is None else of_json(records, names)
    lost = f.count(f.when(f.col("time").isNull(), 1))
    counted = events.observe(OBSERVED, f.count("*").alias("records"), lost.alias("unparsed"))
    return counted.where(f.col("time").isNotNull())


def _referrer(referrer: Column) -> tuple[Column, Column]:
    host = f.regexp_extract(referrer, access_events.REFERRER, 1)
    path = f.regexp_extract(referrer, access_events.REFERRER, 2)
    return (
        host.alias("referrer_host"),
        f.when(host == "", "").when(path == "", "/").otherwise(path).alias("referrer_path"),
    )
