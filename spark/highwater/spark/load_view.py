"""A load for people: rows by hour and topic, what is in quarantine, and how far each partition is."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from highwater.spark.load_run import LoadResult, PartitionLag
from highwater.spark.load_summary import HourRows, LoadSummary
from highwater.spark.page import charts, time_steps
from highwater.spark.page.charts import Series
from highwater.spark.page.document import Column, Fact, Table
from highwater.spark.page.time_steps import Steps
from highwater.spark.page.view import Drawing, View

RANKED_MAX: Final = 10
ROWS_MAX: Final = 100
"""Partitions in the table, those with the largest lag first."""

OTHERS: Final = "other topics"
_COLOURS: Final = (charts.BLUE, charts.GREEN, charts.VIOLET, charts.ORANGE, charts.INK)
"""If there are more topics, the smaller ones share the last colour."""
_HOUR_S: Final = 3600


def to_view(table: str, result: LoadResult, summary: LoadSummary) -> View:
    """Returns what there is to see after a run into `table`."""
    # Both over the same time, so that one stands below the other.
    steps = time_steps.cover(map(_second, (*summary.hours, *summary.bad_hours)), least_s=_HOUR_S)
    drawings = [_over_time("Rows", summary.hours, steps, _COLOURS)]
    if summary.bad_rows:
        bad = _over_time("Values in quarantine", summary.bad_hours, steps, (charts.RED,))
        drawings.append(bad)
    drawings += [_topics(summary.hours), _lag(result.partitions)]
    return View(
        title=f"Load into {table}",
        subtitle=_subtitle(result),
        facts=_facts(result, summary),
        drawings=drawings,
        tables=(*_quarantine(summary), _partitions(result.partitions), _told(result)),
    )


def _subtitle(result: LoadResult) -> str:
    if result.version is None:
        return "The last run found nothing new."
    return (
        f"The last run committed version {result.version}: {result.offsets:,} offsets in "
        f"{result.seconds:.1f} s."
    )


def _facts(result: LoadResult, summary: LoadSummary) -> tuple[Fact, ...]:
    gone = sum(each.end - each.start for each in result.gone)
    facts = (
        Fact(label="Rows in the table", value=f"{summary.rows:,}"),
        Fact(
            label="Values in quarantine",
            value=f"{summary.bad_rows:,}",
            wrong=summary.bad_rows > 0,
        ),
        Fact(label="Lag, offsets", value=f"{result.lag:,}", wrong=result.lag > 0),
        Fact(label="Partitions", value=f"{len(result.partitions):,}"),
    )
    lost = Fact(label="Gone before they were loaded", value=f"{gone:,}", wrong=True)
    return (*facts, lost) if gone else facts


def _second(hour: HourRows) -> int:
    return int(hour.start.timestamp())


def _over_time(
    what: str, hours: Sequence[HourRows], steps: Steps, colours: Sequence[str]
) -> Drawing:
    largest = [name for name, _ in _by_topic(hours)]
    names = largest[: len(colours)]
    if len(names) < len(largest):
        names[-1] = OTHERS
    counts = {name: Counter[int]() for name in names}
    for each in hours:
        name = each.topic if each.topic in counts else OTHERS
        counts[name][steps.start_of(_second(each))] += each.rows
    series = [
        Series(name=name, values=[counts[name][start] for start in steps.starts], colour=colour)
        for name, colour in zip(names, colours, strict=False)
    ]

    def draw(axes: Any) -> None:
        charts.bars_over_time(axes, steps.times, series, width=steps.width)

    return Drawing(title=f"{what} per {steps.text}", draw=draw)


def _by_topic(hours: Sequence[HourRows]) -> list[tuple[str, int]]:
    rows: Counter[str] = Counter()
    for each in hours:
        rows[each.topic] += each.rows
    return sorted(rows.items(), key=lambda one: (-one[1], one[0]))


def _topics(hours: Sequence[HourRows]) -> Drawing:
    largest = _by_topic(hours)[:RANKED_MAX]

    def draw(axes: Any) -> None:
        names, counts = [name for name, _ in largest], [rows for _, rows in largest]
        charts.ranking(axes, names, counts, [charts.BLUE] * len(largest))

    return Drawing(title="Rows by topic", draw=draw, wide=False)


def _behind(partitions: Sequence[PartitionLag]) -> list[PartitionLag]:
    return sorted(partitions, key=lambda each: (-each.lag, each.topic, each.partition))


def _lag(partitions: Sequence[PartitionLag]) -> Drawing:
    first = _behind(partitions)[:RANKED_MAX]

    def draw(axes: Any) -> None:
        names = [f"{each.topic}-{each.partition}" for each in first]
        charts.ranking(axes, names, [each.lag for each in first], [charts.ORANGE] * len(first))

    return Drawing(title="Lag by partition, offsets", draw=draw, wide=False)


def _quarantine(summary: LoadSummary) -> tuple[Table, ...]:
    if not summary.bad_rows:
        return ()
    return (
        Table(
            title="Why values are in quarantine",
            columns=(
                Column(name="Topic"),
                Column(name="Error"),
                Column(name="Values", numbers=True),
            ),
            rows=[(each.topic, each.error, f"{each.rows:,}") for each in summary.complaints],
        ),
        Table(
            title="The newest values in quarantine",
            columns=(
                Column(name="Topic"),
                Column(name="Partition", numbers=True),
                Column(name="Offset", numbers=True),
                Column(name="Value"),
            ),
            rows=[
                (each.topic, str(each.partition), f"{each.offset:,}", each.value or "(empty)")
                for each in summary.newest_bad
            ],
            wide=True,
        ),
    )


def _partitions(partitions: Sequence[PartitionLag]) -> Table:
    return Table(
        title="How far each partition is",
        columns=(
            Column(name="Partition"),
            Column(name="Loaded to", numbers=True),
            Column(name="In the log to", numbers=True),
            Column(name="Lag", numbers=True),
        ),
        rows=[
            (f"{each.topic}-{each.partition}", f"{each.next:,}", f"{each.end:,}", f"{each.lag:,}")
            for each in _behind(partitions)[:ROWS_MAX]
        ],
    )


def _told(result: LoadResult) -> Table:
    return Table(
        title="What the last run had to tell",
        columns=(Column(name="Sentence"),),
        rows=[(sentence,) for sentence in result.told],
        empty="Nothing.",
    )
