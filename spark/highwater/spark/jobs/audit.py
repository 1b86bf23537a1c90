"""What was produced against what was loaded: counts and checksums by partition and hour.

    highwater-spark audit --table /lake/events

Exit code 1 if there is any difference. docs/spark/audit.md describes the report.
"""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from highwater.spark.audit_run import AuditRequest, AuditResult, audit
from highwater.spark.audit_view import to_view
from highwater.spark.ending import EXIT_DIFFERENT, in_one_line, page_may_fail
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
from highwater.spark.session import open_session
from highwater.spark.tables import TableFormat
from highwater.spark.task_progress import shown


def lines(result: AuditResult) -> list[str]:
    """Returns the report for a terminal."""
    found = [
        f"{gone.topic}-{gone.partition}: offsets {gone.start} to {gone.end} are no longer in the log, "
        "not compared"
        for gone in result.uncompared
    ]
    found += [
        f"{each.topic}-{each.partition}, hour {datetime.fromtimestamp(each.hour, UTC):%Y-%m-%d %H}: "
        f"{each.in_log} in the log, {each.in_table} in the table"
        for each in result.different
    ]
    found += [
        f"{each.topic}-{each.partition}, offset {each.offset}: {each.what}"
        for each in result.offsets
    ]
    found += [
        f"{each.topic}-{each.partition}: {each.rows} rows with topic id {each.topic_id} are "
        + ("of an older topic of this name, not compared" if each.is_older else "of no load")
        for each in result.outside
    ]
    strange = sum(each.rows for each in result.outside if not each.is_older)
    verdict = f"{len(result.different)} differ" if result.different else "all equal"
    verdict += f", and {strange} rows are of no load" if strange else ""
    return [
        *found,
        f"{result.records} records in {result.groups} hours of partitions compared: {verdict}.",
    ]


def command(
    *,
    table: Annotated[str, typer.Option(help="The table that `load` wrote.")],
    bootstrap: Bootstrap = "127.0.0.1:9092",
    table_format: Format = TableFormat.DELTA,
    quarantine: Quarantine = None,
    max_offsets_per_task: OffsetsPerTask = None,
    read_uncommitted: ReadUncommitted = False,
    as_json: AsJson = False,
    html: Html = None,
    png: Png = None,
    kafka: Kafka = None,
    jars: Jars = None,
) -> None:
    """Compares a loaded table with the log that it was loaded from."""
    files = PageFiles(html=html, png=png)
    with in_one_line():
        files.prepare()
        request = AuditRequest(
            table=table,
            table_format=table_format,
            quarantine=quarantine,
            read=read_options(
                bootstrap, kafka, per_task=max_offsets_per_task, uncommitted=read_uncommitted
            ),
        )
        spark = open_session(f"audit {table}", jars_directory=jars)
        try:
            with shown(spark, f"audit {table}"):
                result = audit(spark, request)
        finally:
            spark.stop()
    typer.echo(json.dumps(asdict(result)) if as_json else "\n".join(lines(result)))
    with page_may_fail():
        files.write(to_view(table, result))
    if not result.is_equal:
        raise typer.Exit(EXIT_DIFFERENT)


if __name__ == "__main__":
    typer.run(command)
