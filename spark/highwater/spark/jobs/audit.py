"""What was produced against what was loaded: counts and checksums by partition and hour.

    highwater-spark audit --table /lake/events

Exit code 1 if there is any difference. docs/spark/audit.md describes the report.
"""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from highwater.spark.audit_run import AuditRequest, AuditResult, audit
from highwater.spark.ending import EXIT_DIFFERENT, in_one_line
from highwater.spark.jobs.load import kafka_options
from highwater.spark.session import open_session
from highwater.spark.tables import TableFormat
from highwater.spark.task_progress import shown
from highwater.spark.topic_range import ReadOptions


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
    verdict = f"{len(result.different)} differ" if result.different else "all equal"
    return [
        *found,
        f"{result.records} records in {result.groups} hours of partitions compared: {verdict}.",
    ]


def command(
    *,
    table: Annotated[str, typer.Option(help="The table that `load` wrote.")],
    bootstrap: Annotated[str, typer.Option(help="host:port of any broker.")] = "127.0.0.1:9092",
    table_format: Annotated[TableFormat, typer.Option(help="Of the table.")] = TableFormat.DELTA,
    quarantine: Annotated[
        str | None, typer.Option(help="Table of values that did not fit; else TABLE_quarantine.")
    ] = None,
    max_offsets_per_task: Annotated[
        int | None, typer.Option(min=1, help="Split partitions into tasks of so many offsets.")
    ] = None,
    read_uncommitted: Annotated[
        bool, typer.Option(help="If the table was loaded with --read-uncommitted.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The report as a line of JSON.")] = False,
    kafka: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE for the Kafka client.")
    ] = None,
    jars: Annotated[
        Path | None, typer.Option(help="Directory of the connector's jars.", file_okay=False)
    ] = None,
) -> None:
    """Compares a loaded table with the log that it was loaded from."""
    with in_one_line():
        request = AuditRequest(
            table=table,
            table_format=table_format,
            quarantine=quarantine,
            read=ReadOptions(
                bootstrap=bootstrap,
                read_committed=not read_uncommitted,
                offsets_per_task=max_offsets_per_task,
                kafka=kafka_options(kafka or []),
            ),
        )
        spark = open_session(f"audit {table}", jars_directory=jars)
        try:
            with shown(spark, f"audit {table}"):
                result = audit(spark, request)
        finally:
            spark.stop()
    typer.echo(json.dumps(asdict(result)) if as_json else "\n".join(lines(result)))
    if result.different:
        raise typer.Exit(EXIT_DIFFERENT)


if __name__ == "__main__":
    typer.run(command)
