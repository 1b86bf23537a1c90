"""Requests, bytes and errors per hour, top paths and status codes of the web server log in a topic.

    highwater-spark report --bootstrap 127.0.0.1:9092 --topic access_log --output report
    spark-submit --jars ... .../jobs/report.py --topic access_log --output report

    highwater-spark report --table /lake/access_log --output report

Every record's value is one line in combined log format; of a table, `load` has parsed them. Writes to the output directory, replacing
earlier results: `requests_by_hour`, `top_paths` and `status_codes` as Parquet, `access_log.png` and
`access_log.html` to look at, and `report.json` last, so that its presence means that all others
are complete.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from highwater.model.errors import UnwritableDirectoryError, UsageError
from highwater.spark import report, report_views
from highwater.spark.ending import EXIT_SPARK, in_one_line
from highwater.spark.name_values import name_values
from highwater.spark.options import (
    AsJson,
    Bootstrap,
    Format,
    Jars,
    Kafka,
    Quarantine,
    ReadUncommitted,
    kafka_options,
)
from highwater.spark.report_lines import TableSource, read_lines
from highwater.spark.session import open_session
from highwater.spark.tables import TableFormat
from highwater.spark.topic import TopicSource

TOPIC: Final = "access_log"
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


def run(
    spark: SparkSession, source: TopicSource | TableSource, output: Path, *, top_paths: int
) -> report.Report:
    """Reads the topic or the table, writes everything into `output` and returns the report.

    Raises UnwritableDirectoryError, OSError, and what `read_lines` raises.
    """
    found = read_lines(spark, source)
    try:
        output.mkdir(parents=True, exist_ok=True)
        (output / report.REPORT_FILE).unlink(missing_ok=True)
    except OSError as error:
        raise UnwritableDirectoryError(str(output), error.strerror or str(error)) from error
    lines = found.cache()
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
        done = _collect(source, records, records - requests.count(), tables)
    finally:
        lines.unpersist()
    report_views.draw_picture(done, output / report.CHART_FILE)
    report_views.write_page(done, output / report.PAGE_FILE)
    _write_whole(output / report.REPORT_FILE, report.to_json(done))
    return done


def _collect(
    source: TopicSource | TableSource, records: int, unparsed: int, tables: Tables
) -> report.Report:
    # Collect seconds: PySpark converts timestamps to the machine's local time.
    hours: list[Any] = tables.requests_by_hour.withColumn("hour", f.unix_seconds("hour")).collect()
    return report.Report(
        topic=source.topic or "",
        table=source.table if isinstance(source, TableSource) else None,
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
    pairs = name_values(words, "--header")
    if empty := [name for name, value in pairs.items() if not value]:
        raise UsageError(f"--header wants NAME=VALUE, not {empty[0] + '='!r}")
    return pairs


@contextmanager
def _exit_codes() -> Iterator[None]:
    """As `ending.in_one_line`, also for files that cannot be written: what Spark leaves is not all."""
    with in_one_line():
        try:
            yield
        except OSError as error:
            typer.echo(f"highwater-spark: the report cannot be written: {error}", err=True)
            raise typer.Exit(EXIT_SPARK) from error


def sentence(found: report.Report, output: Path) -> str:
    """Returns the result in one line."""
    return (
        f"{found.records} records, {found.requests} requests, {found.unparsed} not in the format; "
        f"{found.size_bytes} bytes in {len(found.hours)} hours. Written to {output}"
    )


def command(
    *,
    bootstrap: Bootstrap = "127.0.0.1:9092",
    topic: Annotated[
        str | None,
        typer.Option(help=f"The topic with the log lines, {TOPIC} unless said; of a table, all."),
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="Report on this table, which load wrote, and read no topic.")
    ] = None,
    table_format: Format = TableFormat.DELTA,
    quarantine: Quarantine = None,
    output: Annotated[
        Path, typer.Option(help="Directory of the results; its old results are replaced.")
    ] = Path("access_log_report"),
    header: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE: only records with this header.")
    ] = None,
    top: Annotated[
        int, typer.Option(help="How many paths to list.", min=1, max=TOP_PATHS_MAX)
    ] = TOP_PATHS_DEFAULT,
    read_uncommitted: ReadUncommitted = False,
    as_json: AsJson = False,
    kafka: Kafka = None,
    jars: Jars = None,
) -> None:
    """Requests, bytes and errors per hour, top paths and status codes of a log in a topic or a table."""
    with _exit_codes():
        headers = _headers(header or [])
        options = kafka_options(kafka or [])
        source: TopicSource | TableSource
        if table is None:
            source = TopicSource(
                bootstrap=bootstrap,
                topic=topic or TOPIC,
                headers=headers,
                read_committed=not read_uncommitted,
                kafka=options,
            )
        else:
            source = TableSource(
                table=table,
                table_format=table_format,
                quarantine=quarantine or f"{table.rstrip('/')}_quarantine",
                topic=topic,
                headers=headers,
            )
        spark = open_session(f"report {table or topic or TOPIC}", jars_directory=jars)
        try:
            found = run(spark, source, output, top_paths=top)
        finally:
            spark.stop()
    typer.echo(json.dumps(report.to_document(found)) if as_json else sentence(found, output))


if __name__ == "__main__":
    typer.run(command)
