"""The off-line load: topics into tables, every record once, from where the last run ended.

    highwater-spark load --topic events --table /lake/events
    highwater-spark load --pattern 'site-.*' --table /lake/sites --format json --schema site.ddl --every 10m
    spark-submit --jars ... .../jobs/load.py --topic events --table hdfs:///lake/events

docs/spark/load.md describes the tables, what happens when a run is killed, and the exit codes.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer
from pyspark.sql import SparkSession

from highwater.model.errors import UsageError
from highwater.spark.brokers import check_pattern
from highwater.spark.ending import (
    EXIT_GONE,
    EXIT_SPARK,
    EXPECTED,
    exit_code,
    in_one_line,
    one_line,
    page_may_fail,
)
from highwater.spark.load_run import LoadRequest, LoadResult, LoadRun
from highwater.spark.load_summary import summarize
from highwater.spark.load_view import to_view
from highwater.spark.options import (
    AsJson,
    Bootstrap,
    Format,
    Html,
    Jars,
    Kafka,
    OffsetsPerTask,
    Png,
    Quarantine,
    ReadUncommitted,
    read_options,
)
from highwater.spark.page.files import PageFiles
from highwater.spark.schedule import repeat, seconds_of
from highwater.spark.session import is_over, open_session
from highwater.spark.tables import TableFormat
from highwater.spark.task_progress import shown
from highwater.spark.value_format import FormatName, value_format

TURNS_FAILED_MAX: Final = 20
"""So many turns in a row in which Spark itself fails end the job: a new session may do better."""


class TimeUnusable(UsageError):
    """A time that is neither ISO 8601 nor milliseconds since 1970."""

    reason = "TIME_UNUSABLE"


def time_ms(text: str) -> int:
    """Returns milliseconds since 1970 of a time; one without a zone is UTC. Raises TimeUnusable."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise TimeUnusable(f"a time is like 2026-11-27T12:00, not {text!r}") from error
    zoned = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return round(zoned.timestamp() * 1000)


def sentence(result: LoadResult) -> str:
    """Returns the result in one line."""
    if result.version is None:
        return f"Nothing new; lag {result.lag} offsets."
    records = "?" if result.records is None else str(result.records)
    rate = (result.records or result.offsets) / max(result.seconds, 0.001)
    bad = f", {result.bad} of them in quarantine" if result.bad else ""
    return (
        f"{records} records of {result.offsets} offsets{bad} in {result.seconds:.1f} s "
        f"({rate:.0f} rows/s); version {result.version}, lag {result.lag} offsets."
    )


def command(
    *,
    table: Annotated[str, typer.Option(help="The table: a path, or a URI that Spark can write.")],
    bootstrap: Bootstrap = "127.0.0.1:9092",
    topic: Annotated[list[str] | None, typer.Option(help="A topic; may be repeated.")] = None,
    pattern: Annotated[
        str | None, typer.Option(help="Also all topics whose whole name matches.")
    ] = None,
    table_format: Format = TableFormat.DELTA,
    value: Annotated[
        FormatName, typer.Option("--format", help="What values are parsed as.")
    ] = FormatName.RAW,
    schema: Annotated[
        Path | None, typer.Option(help="File with the schema of json, csv or avro.")
    ] = None,
    quarantine: Quarantine = None,
    from_time: Annotated[
        str | None, typer.Option("--from", help="Load records from this time on.")
    ] = None,
    replace: Annotated[
        bool, typer.Option(help="With --from: load what is there anew, in one transaction.")
    ] = False,
    max_offsets_per_task: OffsetsPerTask = None,
    read_uncommitted: ReadUncommitted = False,
    every: Annotated[
        str | None, typer.Option(help="Run again and again, at this interval: 30s, 10m, 2h.")
    ] = None,
    as_json: AsJson = False,
    html: Html = None,
    png: Png = None,
    kafka: Kafka = None,
    jars: Jars = None,
) -> None:
    """Loads what is new in topics into a table, every record once."""
    files = PageFiles(html=html, png=png)
    with in_one_line():
        if not topic and pattern is None:
            raise UsageError("name a --topic or a --pattern")
        check_pattern(pattern)
        if replace and from_time is None:
            raise UsageError("--replace needs --from: which time on is to be loaded anew?")
        if replace and every is not None:
            raise UsageError("--replace loads anew once; leave out --every")
        interval_s = None if every is None else seconds_of(every)
        reading = read_options(
            bootstrap, kafka, per_task=max_offsets_per_task, uncommitted=read_uncommitted
        )
        request = LoadRequest(
            topics=tuple(topic or ()),
            pattern=pattern,
            table=table,
            table_format=table_format,
            value_format=value_format(value, schema),
            read=reading,
            quarantine=quarantine,
            from_ms=None if from_time is None else time_ms(from_time),
            replace=replace,
        )
        files.prepare()
        result = _run(request, interval_s, files, as_json=as_json, jars=jars)
    if result.gone:
        raise typer.Exit(EXIT_GONE)


def _run(
    request: LoadRequest,
    interval_s: int | None,
    files: PageFiles,
    *,
    as_json: bool,
    jars: Path | None,
) -> LoadResult:
    """Runs once, or with an interval until the process is ended."""
    spark = open_session(f"load {request.table}", jars_directory=jars)
    try:
        if interval_s is not None:
            turns = Turns(
                lambda: _once(spark, request, files, as_json=as_json),
                is_over=lambda: is_over(spark),
            )
            repeat(turns.turn, interval_s, now=time.monotonic, sleep=time.sleep)
        return _once(spark, request, files, as_json=as_json)
    finally:
        # A session whose Java has died cannot be stopped any more.
        if not is_over(spark):
            spark.stop()


class Turns:
    """The turns of `--every`: an error is told, and the next turn tries again.

    Not for ever if it is Spark's: a session that is over ends the job at once, and so do
    TURNS_FAILED_MAX errors of Spark's in a row. One owner, for as long as the job runs.
    """

    def __init__(self, once: Callable[[], object], *, is_over: Callable[[], bool]) -> None:
        self._once = once
        self._is_over = is_over
        self._failed = 0

    def turn(self) -> None:
        """Does one turn. Raises typer.Exit if the session is over, or Spark's error after too many."""
        try:
            self._once()
        except EXPECTED as error:
            typer.echo(f"highwater-spark: {one_line(error)}", err=True)
            if self._is_over():
                typer.echo(
                    "highwater-spark: Spark's session is over: start the job again", err=True
                )
                raise typer.Exit(EXIT_SPARK) from error
            is_sparks = exit_code(error) == EXIT_SPARK
            self._failed = self._failed + 1 if is_sparks else 0
            if self._failed >= TURNS_FAILED_MAX:
                raise
        else:
            self._failed = 0


def _once(
    spark: SparkSession, request: LoadRequest, files: PageFiles, *, as_json: bool
) -> LoadResult:
    with shown(spark, f"load {request.table}") as aim:
        run = LoadRun(spark, request, lambda text: typer.echo(text, err=True), aim=aim.set)
        result = run.run()
    typer.echo(json.dumps(asdict(result)) if as_json else sentence(result))
    sys.stdout.flush()
    if files.are_wanted:
        with page_may_fail():
            files.write(to_view(request.table, result, summarize(spark, request)))
    return result


if __name__ == "__main__":
    typer.run(command)
