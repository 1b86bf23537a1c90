"""Records of a topic as requests of a web server: `access_events.AccessEvent` as columns.

Columns: time, client, path, status, size_bytes, referrer_host, referrer_path, latency_ms, and `error`,
which says why a record is left out: it is not in the format, or its time is ahead of the log's.

A request whose time lies in the future would move the watermark there for good, and everything after it
would be late. So the time is compared with the record's own timestamp, which is the log's clock, and not
with ours: it says the same in every run, also of a log that is replayed years later at any speed. The
brokers hold timestamps to their own clock (`message.timestamp.after.max.ms`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from highwater.model.errors import ConfigError
from highwater.spark import access_events
from highwater.spark.combined_log import SECONDS_MAX, SECONDS_MIN, SIZE_BYTES_MAX
from highwater.spark.combined_log_columns import LineColumns, in_reach
from highwater.spark.stream_progress import OBSERVED


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonFields:
    """Names of a JSON record's fields; nested ones as `request.path`. Empty: there is none.

    The time is a number of seconds or milliseconds since 1970, or text in ISO 8601. Time, client, path and
    status have to be there where they have a name; bytes, referrer and latency may be missing.
    """

    time: str = "time"
    client: str = "client"
    path: str = "path"
    status: str = "status"
    size_bytes: str = "bytes"
    referrer: str = "referrer"
    latency_ms: str = "latency_ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFormat:
    """What a request is: JSON with the fields of `names`, else a line; `ahead_s` is told in `error_of`."""

    names: JsonFields | None
    ahead_s: int


NOT_IN_FORMAT: Final = "not in the format"
AHEAD: Final = "ahead of the record's timestamp"

STATUS_MAX: Final = 999
"""Lines have three digits, too."""

NO_BYTES: Final = "-"
"""What Apache writes for none, also into JSON."""

MS_FROM: Final = 100_000_000_000
"""Numbers of times from here on are milliseconds: as seconds they would be beyond the year 5000."""


def parse_fields(text: str) -> JsonFields:
    """Returns the names in a text like `time=ts,latency_ms=took`. Raises ConfigError."""
    names = [field.name for field in fields(JsonFields)]
    pairs = [word.partition("=") for word in text.split(",") if word]
    for name, _, _ in pairs:
        if name not in names:
            raise ConfigError(f"no field {name!r} of an event: {', '.join(names)}")
    return JsonFields(**{name: value.strip() for name, _, value in pairs})


def of_records(records: DataFrame, wanted: EventFormat) -> DataFrame:
    """Returns the events; records that are none are counted and left out."""
    events = _of_lines(records, wanted) if wanted.names is None else _of_json(records, wanted)
    error = f.col("error")
    counted = events.observe(
        OBSERVED,
        f.count("*").alias("records"),
        f.count(f.when(error == NOT_IN_FORMAT, 1)).alias("unparsed"),
        f.count(f.when(error == AHEAD, 1)).alias("ahead"),
        f.max(f.when(error.isNull(), f.unix_seconds("time"))).alias("newest_s"),
    )
    return counted.where(error.isNull()).drop("error")


def error_of(value: Column, timestamp: Column, wanted: EventFormat) -> Column:
    """Returns why a record is left out, null if it is not.

    That is NOT_IN_FORMAT, or AHEAD for a time that is more than `ahead_s` after the record's timestamp; a
    record without a timestamp is never ahead.
    """
    text = value.cast("string")
    if (names := wanted.names) is None:
        time = LineColumns(text, access_events.LINE).time
        fits = time.isNotNull()
    else:
        texts = _json_texts(text, names)
        time = _json_time(texts["time"])
        fits = _json_fits(texts, names)
    return _error(fits, time, timestamp, wanted.ahead_s)


def _error(fits: Column, time: Column, timestamp: Column, ahead_s: int) -> Column:
    stamped_ms = f.unix_millis(timestamp)
    is_ahead = (stamped_ms >= 0) & (f.unix_millis(time) - stamped_ms > ahead_s * 1000)
    return f.when(~fits, NOT_IN_FORMAT).when(is_ahead, AHEAD)


def _of_lines(records: DataFrame, wanted: EventFormat) -> DataFrame:
    columns = LineColumns(f.col("value").cast("string"), access_events.LINE)
    return records.select(
        columns.time.alias("time"),
        columns.group(access_events.CLIENT_GROUP).alias("client"),
        columns.path.alias("path"),
        columns.status.alias("status"),
        columns.size_bytes.alias("size_bytes"),
        *_referrer(columns.group(access_events.REFERRER_GROUP)),
        f.lit(None).cast("double").alias("latency_ms"),
        error_of(f.col("value"), f.col("timestamp"), wanted).alias("error"),
    )


def _of_json(records: DataFrame, wanted: EventFormat) -> DataFrame:
    names = wanted.names or JsonFields()
    texts = _json_texts(f.col("value").cast("string"), names)
    found = records.select("timestamp", *(text.alias(name) for name, text in texts.items()))
    columns = {name: f.col(name) for name in texts}
    time = _json_time(columns["time"])
    fits = _json_fits(columns, names)
    return found.select(
        time.alias("time"),
        f.coalesce("client", f.lit("")).alias("client"),
        f.substring_index(f.coalesce("path", f.lit("")), "?", 1).alias("path"),
        f.coalesce(columns["status"].try_cast("int"), f.lit(0)).alias("status"),
        f.coalesce(columns["size_bytes"].try_cast("bigint"), f.lit(0)).alias("size_bytes"),
        *_referrer(f.coalesce("referrer", f.lit(""))),
        columns["latency_ms"].try_cast("double").alias("latency_ms"),
        _error(fits, time, f.col("timestamp"), wanted.ahead_s).alias("error"),
    )


def _json_texts(value: Column, names: JsonFields) -> dict[str, Column]:
    """The fields as texts by our names for them, null where one is missing."""
    return {field.name: _json_text(value, getattr(names, field.name)) for field in fields(names)}


def _json_fits(texts: Mapping[str, Column], names: JsonFields) -> Column:
    """Whether what has to be there is there, and numbers are numbers; never null."""
    fits = _json_time(texts["time"]).isNotNull()
    for name in ("client", "path"):
        if getattr(names, name):
            fits &= texts[name].isNotNull()
    if names.status:
        fits &= _true(texts["status"].try_cast("int").between(0, STATUS_MAX))
    size, latency = texts["size_bytes"], texts["latency_ms"]
    fits &= (
        size.isNull()
        | (size == NO_BYTES)
        | _true(size.try_cast("bigint").between(0, SIZE_BYTES_MAX))
    )
    # Not a number is above everything to Spark, and would be every percentile.
    return fits & (latency.isNull() | _true(f.abs(latency.try_cast("double")) < float("inf")))


def _true(condition: Column) -> Column:
    """The condition, false where it is null."""
    return f.coalesce(condition, f.lit(False))


def _json_text(value: Column, name: str) -> Column:
    return f.get_json_object(value, f"$.{name}") if name else f.lit(None).cast("string")


def _json_time(text: Column) -> Column:
    number = text.try_cast("double")
    seconds = f.when(f.abs(number) >= MS_FROM, number / 1000).otherwise(number)
    # Spark ends the job for a number that no timestamp can have.
    possible = f.when(seconds.between(SECONDS_MIN, SECONDS_MAX), seconds)
    time = f.timestamp_millis(f.round(possible * 1000).cast("bigint"))
    return in_reach(f.coalesce(time, text.try_cast("timestamp")))


def _referrer(referrer: Column) -> tuple[Column, Column]:
    host = f.regexp_extract(referrer, access_events.REFERRER, 1)
    path = f.regexp_extract(referrer, access_events.REFERRER, 2)
    return (
        host.alias("referrer_host"),
        f.when(host == "", "").when(path == "", "/").otherwise(path).alias("referrer_path"),
    )
