"""A comparison of a table with the log for people: which hours of which partitions differ, and where."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any, Final

from highwater.spark.audit_run import AuditResult
from highwater.spark.page import charts, time_steps
from highwater.spark.page.charts import Series
from highwater.spark.page.document import Column, Fact, Table
from highwater.spark.page.view import Drawing, View

RANKED_MAX: Final = 10
ROWS_MAX: Final = 500
"""Of each table of a page; JSON has everything."""

_HOUR_S: Final = 3600


def to_view(table: str, result: AuditResult) -> View:
    """Returns what there is to see of `table` against the log."""
    # Empty charts of what differs would look as if something were missing.
    differing = (_partitions(result), _kinds(result)) if result.different else ()
    return View(
        title=f"{table} against the log",
        subtitle=_subtitle(result),
        facts=_facts(result),
        drawings=(_hours(result), *differing),
        tables=(_different(result), _offsets(result), _uncompared(result), *_outside(result)),
    )


def _subtitle(result: AuditResult) -> str:
    compared = _compared(result)
    strange = _strange(result)
    return f"{compared} {strange:,} rows are of no load." if strange else compared


def _strange(result: AuditResult) -> int:
    return sum(each.rows for each in result.outside if not each.is_older)


def _compared(result: AuditResult) -> str:
    if result.different:
        return f"{len(result.different):,} of {result.groups:,} hours of partitions differ from the log."
    return f"All {result.groups:,} hours of partitions that were compared are equal."


def _facts(result: AuditResult) -> tuple[Fact, ...]:
    different = len(result.different)
    uncompared = sum(each.end - each.start for each in result.uncompared)
    strange = _strange(result)
    facts = (
        Fact(label="Records compared", value=f"{result.records:,}"),
        Fact(label="Hours of partitions", value=f"{result.groups:,}"),
        Fact(label="Hours that differ", value=f"{different:,}", wrong=different > 0),
        Fact(label="Offsets no longer in the log", value=f"{uncompared:,}"),
    )
    lost = Fact(label="Rows of no load", value=f"{strange:,}", wrong=True)
    return (*facts, lost) if strange else facts


def _outside(result: AuditResult) -> tuple[Table, ...]:
    if not result.outside:
        return ()
    return (
        Table(
            title="Rows beside what was loaded",
            columns=(
                Column(name="Partition"),
                Column(name="Topic id"),
                Column(name="Rows", numbers=True),
                Column(name="Of"),
            ),
            rows=[
                (
                    f"{each.topic}-{each.partition}",
                    each.topic_id,
                    f"{each.rows:,}",
                    "an older topic of this name" if each.is_older else "no load",
                )
                for each in result.outside
            ],
        ),
    )


def _hours(result: AuditResult) -> Drawing:
    hours = [each for each in result.hours if 0 <= each.hour <= time_steps.SECONDS_MAX]
    steps = time_steps.cover([each.hour for each in hours], least_s=_HOUR_S)
    equal, differing = Counter[int](), Counter[int]()
    for each in hours:
        equal[steps.start_of(each.hour)] += each.equal
        differing[steps.start_of(each.hour)] += each.differing
    series = [
        Series(name=f"in hours that {name}", values=[counts[each] for each in steps.starts], colour=colour)
        for name, counts, colour in (
            ("are equal", equal, charts.GREEN), ("differ", differing, charts.RED),
        )
    ]  # fmt: skip

    def draw(axes: Any) -> None:
        charts.bars_over_time(axes, steps.times, series, width=steps.width)

    return Drawing(title=f"Records compared per {steps.text}", draw=draw)


def _partitions(result: AuditResult) -> Drawing:
    hours = Counter(f"{each.topic}-{each.partition}" for each in result.different)
    return _ranking("Hours that differ, by partition", hours)


def _kinds(result: AuditResult) -> Drawing:
    return _ranking("Offsets that differ, by kind", Counter(each.what for each in result.offsets))


def _ranking(title: str, counts: Counter[str]) -> Drawing:
    first = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:RANKED_MAX]

    def draw(axes: Any) -> None:
        charts.ranking(
            axes,
            [name for name, _ in first],
            [count for _, count in first],
            [charts.RED] * len(first),
        )

    return Drawing(title=title, draw=draw, wide=False)


def _hour_text(hour: int) -> str:
    if not 0 <= hour <= time_steps.SECONDS_MAX:
        return f"{hour} s"
    return f"{datetime.fromtimestamp(hour, UTC):%Y-%m-%d %H:00}"


def _different(result: AuditResult) -> Table:
    return Table(
        title="Hours that differ",
        columns=(
            Column(name="Partition"),
            Column(name="Hour (UTC)"),
            Column(name="In the log", numbers=True),
            Column(name="In the table", numbers=True),
        ),
        rows=[
            (
                f"{each.topic}-{each.partition}",
                _hour_text(each.hour),
                f"{each.in_log:,}",
                f"{each.in_table:,}",
            )
            for each in result.different[:ROWS_MAX]
        ],
    )


def _offsets(result: AuditResult) -> Table:
    return Table(
        title="Offsets that differ",
        columns=(
            Column(name="Partition"),
            Column(name="Offset", numbers=True),
            Column(name="What"),
        ),
        rows=[
            (f"{each.topic}-{each.partition}", f"{each.offset:,}", each.what)
            for each in result.offsets[:ROWS_MAX]
        ],
    )


def _uncompared(result: AuditResult) -> Table:
    return Table(
        title="No longer in the log, not compared",
        columns=(
            Column(name="Partition"),
            Column(name="From offset", numbers=True),
            Column(name="To before", numbers=True),
        ),
        rows=[
            (f"{each.topic}-{each.partition}", f"{each.start:,}", f"{each.end:,}")
            for each in result.uncompared[:ROWS_MAX]
        ],
    )
