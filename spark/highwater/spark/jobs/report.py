"""Requests, bytes and errors per hour, top paths and status codes of the web server log in a topic.

    highwater-spark report --bootstrap 127.0.0.1:9092 --topic access_log --output report
    spark-submit --jars ... .../jobs/report.py --topic access_log --output report

Every record's value is one line in combined log format. Writes to the output directory, replacing
earlier results: `requests_by_hour`, `top_paths` and `status_codes` as Parquet, `access_log.png` and
`access_log.html` to look at, and `report.json` last, so that its presence means that all others
are complete.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from highwater.model.errors import EXIT_USAGE, UsageError
from highwater.spark import report, report_views
from highwater.spark.combined_log_columns import LineColumns
from highwater.spark.session import open_session
from highwater.spark.topic import TopicSource, read_topic

TOP_PATHS_DEFAULT: Final = 10
TOP_PATHS_MAX: Final = 1000
SERVER_ERROR_MIN: Final = 500
"""Statuses from here on are the server's fault (RFC 9110, 15.6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The job's results; except for the top paths, each has a few hundred rows at most."""

    requests_by_hour: DataFrame
    top_paths: DataFrame
    status_codes: DataFrame


def parse_lines(records: DataFrame) -> DataFrame:
    """Returns time (null if a line is not in the format), path, status and size_bytes."""
    columns = LineColumns(f.col("value").cast("string"))
    return records.select(
        columns.time.alias("time"),
        columns.path.alias("path"),
        columns.status.alias("status"),
        columns.size_bytes.alias("size_bytes"),
    )


def tabulate(requests: DataFrame, *, top_paths: int) -> Tables:
    """Returns the three tables of parsed requests, ordered as `report.Report` describes."""
    count = f.count("*").alias("requests")
    size = f.sum("size_bytes").alias("size_bytes")
    client_errors = f.count_if(f.col("status").between(400, 499)).alias("client_errors")
    server_errors = f.count_if(f.col("status") >= SERVER_ERROR_MIN).alias("server_errors")
    return Tables(
        requests_by_hour=requests.groupBy(f.date_trunc("hour", "time").alias("hour"))
        .agg(count, size, client_errors, server_errors)
        .orderBy("hour"),
        top_paths=requests.groupBy("path")
        .agg(count, size)
        .orderBy(f.desc("requests"), "path")
        .limit(top_paths),
        status_codes=requests.groupBy("status").agg(count).orderBy(f.desc("requests"), "status"),
    )


def run(spark: SparkSession, source: TopicSource, output: Path, *, top_paths: int) -> report.Report:
    """Reads the topic, writes everything into `output` and returns the report."""
    output.mkdir(parents=True, exist_ok=True)
    (output / report.REPORT_FILE).unlink(missing_ok=True)
    lines = parse_lines(read_topic(spark, source)).cache()
    try:
        requests = lines.where(f.col("time").isNotNull())
        tables = tabulate(requests, top_paths=top_paths)
        for name, table in (
            ("requests_by_hour", tables.requests_by_hour),
            ("top_paths", tables.top_paths),
            ("status_codes", tables.status_codes),
        ):
            # A few hundred rows: one file each.
            table.coalesce(1).write.mode("overwrite").parquet(str(output.absolute() / name))
        records = lines.count()
        found = _collect(source.topic, records, records - requests.count(), tables)
    finally:
        lines.unpersist()
    report_views.draw_picture(found, output / report.CHART_FILE)
    report_views.write_page(found, output / report.PAGE_FILE)
    _write_whole(output / report.REPORT_FILE, report.to_json(found))
    return found


def _collect(topic: str, records: int, unparsed: int, tables: Tables) -> report.Report:
    # Collect seconds: PySpark converts timestamps to the machine's local time.
    hours: list[Any] = tables.requests_by_hour.withColumn("hour", f.unix_seconds("hour")).collect()
    return report.Report(
        topic=topic,
        records=records,
        unparsed=unparsed,
        hours=tuple(
            report.HourTraffic(
                start=datetime.fromtimestamp(row["hour"], UTC),
                requests=row["requests"],
                size_bytes=row["size_bytes"],
                client_errors=row["client_errors"],
                server_errors=row["server_errors"],
            )
            for row in hours
        ),
        top_paths=tuple(report.PathTraffic(**row.asDict()) for row in tables.top_paths.collect()),
        status_codes=tuple(
            report.StatusCount(**row.asDict()) for row in tables.status_codes.collect()
        ),
    )


def _write_whole(path: Path, text: str) -> None:
    """Replaces a file atomically."""
    draft = path.with_suffix(".tmp")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def _headers(words: list[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    if wrong := [
        word for word, pair in zip(words, pairs, strict=True) if not pair[0] or not pair[1]
    ]:
        raise UsageError(f"--header wants NAME=VALUE, not {wrong[0]!r}")
    return {name: value for name, _, value in pairs}


def command(
    *,
    bootstrap: Annotated[str, typer.Option(help="host:port of any broker.")] = "127.0.0.1:9092",
    topic: Annotated[str, typer.Option(help="The topic with the log lines.")] = "access_log",
    output: Annotated[
        Path, typer.Option(help="Directory of the results; its old results are replaced.")
    ] = Path("access_log_report"),
    header: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE: only records with this header.")
    ] = None,
    top: Annotated[
        int, typer.Option(help="How many paths to list.", min=1, max=TOP_PATHS_MAX)
    ] = TOP_PATHS_DEFAULT,
    jars: Annotated[
        Path | None, typer.Option(help="Directory of the connector's jars.", file_okay=False)
    ] = None,
) -> None:
    """Requests, bytes and errors per hour, top paths and status codes of a log in a topic."""
    try:
        source = TopicSource(bootstrap=bootstrap, topic=topic, headers=_headers(header or []))
        spark = open_session(f"report {topic}", jars_directory=jars)
    except UsageError as error:
        typer.echo(f"highwater-spark: {error}", err=True)
        raise typer.Exit(EXIT_USAGE) from error
    try:
        found = run(spark, source, output, top_paths=top)
    finally:
        spark.stop()
    typer.echo(
        f"{found.records} records, {found.requests} requests, {found.unparsed} not in the format; "
        f"{found.size_bytes} bytes in {len(found.hours)} hours. Written to {output}"
    )


if __name__ == "__main__":
    typer.run(command)
