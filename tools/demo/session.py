"""The demo's Spark jobs in one session: a report, a load and its comparison with the log, and one page.

    python -m tools.demo.session --bootstrap ... --topic ... --run-id ... --output DIRECTORY

Each job leaves a file when it is done, which appears whole: `report.json`, `load.json`, `audit.json`. The
page of all three, `index.html`, is there before the last of them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from highwater.model.errors import UsageError
from highwater.spark import audit_view, load_view, report_views
from highwater.spark.audit_run import AuditRequest, AuditResult, audit
from highwater.spark.ending import exit_code, one_line
from highwater.spark.jobs import report
from highwater.spark.load_run import LoadRequest, LoadResult, LoadRun
from highwater.spark.load_summary import LoadSummary, summarize
from highwater.spark.page import view
from highwater.spark.page.view import View
from highwater.spark.report import Report
from highwater.spark.session import open_session
from highwater.spark.tables import TableFormat, open_table
from highwater.spark.topic import TopicSource
from highwater.spark.topic_range import ReadOptions
from highwater.spark.value_format import FormatName, ValueFormat
from tools.demo.options import INDEX_FILE
from tools.demo.producing import RUN_HEADER

TABLE = "table"
"""The loaded table, below the output directory; its quarantine is beside it."""


def main() -> int:
    options = _parse()
    try:
        spark = open_session("demo")
        try:
            _run(spark, options)
        finally:
            spark.stop()
    except UsageError as error:
        # The last line of the log, which the demo tells.
        print(one_line(error), file=sys.stderr)
        return exit_code(error)
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "topic", "run-id"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--top", type=int, required=True)
    return parser.parse_args()


def _run(spark: SparkSession, options: argparse.Namespace) -> None:
    source = TopicSource(
        bootstrap=options.bootstrap, topic=options.topic, headers={RUN_HEADER: options.run_id}
    )
    reported = report.run(spark, source, options.output, top_paths=options.top)
    request = LoadRequest(
        topics=(options.topic,),
        pattern=None,
        table=str(options.output / TABLE),
        table_format=TableFormat.DELTA,
        value_format=ValueFormat(name=FormatName.COMBINED_LOG),
        read=ReadOptions(bootstrap=options.bootstrap),
    )
    loaded = load(spark, request, source.headers)
    _leave(options.output / "load.json", loaded[1])
    compared = audit(
        spark,
        AuditRequest(table=request.table, table_format=request.table_format, read=request.read),
    )
    index = index_of(reported, loaded[0], summarize(spark, request), compared)
    view.write_page(index, options.output / INDEX_FILE)
    _leave(options.output / "audit.json", asdict(compared))


def load(
    spark: SparkSession, request: LoadRequest, headers: Mapping[str, str]
) -> tuple[LoadResult, dict[str, Any]]:
    """Loads, and counts this run's rows: all of them, and how many different places they are from."""
    result = LoadRun(spark, request, print).run()
    rows = open_table(spark, request.table_format, request.table).read()
    for name, value in headers.items():
        wanted = f.struct(f.lit(name).alias("key"), f.lit(value).cast("binary").alias("value"))
        rows = rows.where(f.array_contains(f.col("headers"), wanted))
    counted = rows.agg(
        f.count("*").alias("rows"), f.count_distinct("partition", "offset").alias("places")
    ).first()
    assert counted is not None
    return result, {"lag": result.lag, "bad": result.bad, **counted.asDict()}


def index_of(
    reported: Report, loaded: LoadResult, summary: LoadSummary, compared: AuditResult
) -> View:
    """Returns one view of the report, with those of the load and the comparison below it."""
    traffic = report_views.to_view(reported)
    return View(
        title=traffic.title,
        subtitle=traffic.subtitle,
        facts=traffic.facts,
        drawings=traffic.drawings,
        tables=traffic.tables,
        parts=(
            load_view.to_view("the table", loaded, summary),
            audit_view.to_view("The table", compared),
        ),
    )


def _leave(path: Path, document: dict[str, Any]) -> None:
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(document), encoding="utf-8")
    draft.replace(path)


if __name__ == "__main__":
    sys.exit(main())
