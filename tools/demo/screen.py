"""The demo's output: steps with their progress, the report, and how to connect."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich import box
from rich.columns import Columns
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from highwater.spark.report import Report
from tools.demo.checks import Check

NAME_WIDTH = 44
PATH_WIDTH_MAX = 44
SPARKLINE_MARGIN = 14
_SPARKS = "▁▂▃▄▅▆▇█"


@dataclass(slots=True)
class Step:
    """One running step; `done` is printed after its name when it ends."""

    progress: Progress
    task: TaskID
    done: str = field(default="")

    def advance(self, count: int) -> None:
        """Advances the progress bar."""
        self.progress.advance(self.task, count)


class Screen:
    """Writes to a console, without progress bars if it is not a terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def step(self, name: str, total: int | None = None) -> Iterator[Step]:
        """Shows that `name` is running, and when the block ends, how long it took."""
        columns = [SpinnerColumn(), TextColumn("{task.description}")]
        if total is not None:
            columns += [BarColumn(bar_width=30), MofNCompleteColumn()]
        started = time.monotonic()
        with Progress(
            *columns,
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        ) as progress:
            step = Step(progress, progress.add_task(name, total=total))
            try:
                yield step
            except BaseException:
                progress.stop()
                self.console.print(Text.assemble(("  ✗ ", "bold red"), name))
                raise
        took = f"{time.monotonic() - started:6.1f} s"
        self.console.print(
            Text.assemble(
                ("  ✓ ", "bold green"), f"{name:<{NAME_WIDTH}}", (took, "dim"), f"   {step.done}"
            ),
            soft_wrap=True,
        )

    def heading(self, text: str) -> None:
        """Prints a heading."""
        self.console.print(Text(f"\n{text}", style="bold"))

    def checks(self, checks: Sequence[Check]) -> None:
        """Prints each check with its result."""
        self.heading("Checks")
        for check in checks:
            mark = ("  ✓ ", "bold green") if check.holds else ("  ✗ ", "bold red")
            self.console.print(
                Text.assemble(mark, f"{check.name:<{NAME_WIDTH}} ", check.found), soft_wrap=True
            )

    def report(self, report: Report) -> None:
        """Prints a summary of the Spark report."""
        self.heading(f"Report on {report.topic}, by Spark")
        if report.hours and report.busiest is not None:
            first, last = report.hours[0].start, report.hours[-1].start
            busiest = report.busiest
            self.console.print(
                f"  {report.requests:,} requests, {report.size_bytes / 1e9:.2f} GB sent, "
                f"{first:%d %b %Y %H:00} to {last:%d %b %Y %H:59} UTC",
                highlight=False,
            )
            self.console.print(
                f"  Busiest hour: {busiest.start:%d %b %H:00}, {busiest.requests:,} requests; "
                f"not in the log format: {report.unparsed:,}",
                highlight=False,
            )
            width = self.console.width - SPARKLINE_MARGIN
            requests = sparkline([hour.requests for hour in report.hours], width)
            size = sparkline([hour.size_bytes for hour in report.hours], width)
            self.console.print(f"  Requests  {requests}\n  Bytes     {size}", highlight=False)
        self.console.print(Columns([_paths(report), _codes(report)], padding=(1, 3)))

    def files(self, page: Path, picture: Path, directory: Path) -> None:
        """Prints where there is something to look at."""
        self.heading("To look at")
        for what, path in (("page", page), ("picture", picture), ("tables", directory)):
            self.console.print(f"  {what:<8} {path}", highlight=False, soft_wrap=True)

    def how_to_connect(self, address: str, topic: str, log_path: Path) -> None:
        """Prints the address, and two ways to use it."""
        self.heading(f"Serving on {address}")
        for line in (
            "Any Kafka client connects to that address; no user, no TLS. For example:",
            f"  kcat -C -b {address} -t {topic} -o -3 -e",
            f"  kafka-topics.sh --bootstrap-server {address} --describe --topic {topic}",
            f"Its log: {log_path}. Ctrl-C ends it; the data stay for the next run.",
        ):
            self.console.print(f"  {line}", highlight=False, soft_wrap=True)


def sparkline(values: Sequence[int], width: int) -> str:
    """Returns the values as blocks of eight heights; the largest value has the highest.

    If there are more than `width` values, each block shows the sum of several; the last block may
    have fewer, and be lower.
    """
    each = -(-len(values) // max(width, 1)) or 1
    values = [sum(values[start : start + each]) for start in range(0, len(values), each)]
    top = max(values, default=0)
    steps = len(_SPARKS) - 1
    return "".join(_SPARKS[value * steps // top] if top else _SPARKS[0] for value in values)


def _paths(report: Report) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("Top paths", max_width=PATH_WIDTH_MAX, no_wrap=True, overflow="ellipsis")
    table.add_column("Requests", justify="right")
    table.add_column("MB", justify="right")
    for path in report.top_paths:
        table.add_row(Text(path.path), f"{path.requests:,}", f"{path.size_bytes / 1e6:,.1f}")
    return table


def _codes(report: Report) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("Status")
    table.add_column("Requests", justify="right")
    for code in report.status_codes:
        table.add_row(str(code.status), f"{code.requests:,}")
    return table
