"""A watch for people: requests, error rates and latency over time, and alarms that began and ended."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from highwater.spark.page import charts, time_steps
from highwater.spark.page.charts import Series, Span, Unit
from highwater.spark.page.document import Column, Fact, Table
from highwater.spark.page.time_steps import Steps
from highwater.spark.page.view import Drawing, View
from highwater.spark.stream_page import StreamSoFar
from highwater.spark.watch.alarms import AlarmChange
from highwater.spark.watch.minute import MINUTE_S, Minute

ROWS_MAX: Final = 200
"""Alarms in the table, the newest ones."""

RULES_DRAWN: Final = 15
SPANS_DRAWN: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """An alarm from `since_s` to `until_s`, None while it sounds; times are seconds since 1970.

    `value` is what began it, where that is known, else what ended it.
    """

    rule: str
    since_s: int
    until_s: int | None
    value: float | None
    limit: float | None


def alarms_of(changes: Iterable[AlarmChange]) -> list[Alarm]:
    """Returns the alarms of these changes, the newest one first."""
    found: dict[tuple[str, int], Alarm] = {}
    for change in sorted(changes, key=lambda each: (each.at_s, not each.begins)):
        key = change.rule, change.since_s
        began = found.get(key)
        found[key] = Alarm(
            rule=change.rule,
            since_s=change.since_s,
            until_s=None if change.begins else change.at_s,
            value=change.value if began is None else began.value,
            limit=change.limit if began is None else began.limit,
        )
    return sorted(found.values(), key=lambda each: (-each.since_s, each.rule))


def to_view(
    topic: str,
    minutes: Sequence[Minute],
    changes: Sequence[AlarmChange],
    so_far: StreamSoFar,
) -> View:
    """Returns what there is to see of the minutes, in the order of time, and of the alarms."""
    alarms = alarms_of(changes)
    steps = time_steps.cover((each.start_s for each in minutes), least_s=MINUTE_S)
    in_step: dict[int, list[Minute]] = defaultdict(list)
    for each in minutes:
        in_step[steps.start_of(each.start_s)].append(each)
    groups = [in_step.get(start, []) for start in steps.starts]
    drawings = [_requests(steps, groups), _rates(steps, groups)]
    if any(each.latency_p50 is not None for each in minutes):
        drawings.append(_latency(steps, groups))
    if alarms:
        drawings.append(_alarms(minutes, alarms))
    return View(
        title=f"Watch of topic {topic}",
        subtitle=_subtitle(minutes),
        facts=_facts(minutes, alarms, so_far),
        drawings=drawings,
        tables=(_table(alarms), so_far.table()),
    )


def _subtitle(minutes: Sequence[Minute]) -> str:
    if not minutes:
        return "No minute is closed yet."
    requests = sum(each.requests for each in minutes)
    return (
        f"{requests:,} requests in {len(minutes):,} minutes that are closed, "
        f"{_text(minutes[0].start_s)} to {_text(minutes[-1].end_s)} UTC"
    )


def _text(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%d %b %Y %H:%M}"


def _facts(
    minutes: Sequence[Minute], alarms: Sequence[Alarm], so_far: StreamSoFar
) -> tuple[Fact, ...]:
    requests = sum(each.requests for each in minutes)
    errors = sum(each.errors for each in minutes)
    sounding = sum(each.until_s is None for each in alarms)
    share = errors / requests if requests else 0.0
    return (
        Fact(label="Alarms that sound", value=f"{sounding:,}", wrong=sounding > 0),
        Fact(label="Alarms that ended", value=f"{len(alarms) - sounding:,}"),
        Fact(label="Server errors", value=f"{errors:,} ({share:.1%})"),
        *so_far.facts(),
    )


def _requests(steps: Steps, groups: Sequence[Sequence[Minute]]) -> Drawing:
    series = (
        Series(name="requests", values=_sums(groups, lambda each: each.requests), colour=charts.BLUE),
    )  # fmt: skip

    def draw(axes: Any) -> None:
        charts.bars_over_time(axes, steps.times, series, width=steps.width)

    return Drawing(title=f"Requests per {steps.text}", draw=draw)


def _rates(steps: Steps, groups: Sequence[Sequence[Minute]]) -> Drawing:
    requests = _sums(groups, lambda each: each.requests)
    counts = (
        ("client errors (4xx)", charts.ORANGE, _sums(groups, lambda each: each.client_errors)),
        ("server errors (5xx)", charts.RED, _sums(groups, lambda each: each.errors)),
    )
    series = [
        Series(
            name=name,
            values=[one / all_ if all_ else math.nan for one, all_ in zip(errors, requests, strict=True)],
            colour=colour,
        )
        for name, colour, errors in counts
    ]  # fmt: skip

    def draw(axes: Any) -> None:
        charts.lines_over_time(axes, steps.times, series, width=steps.width, unit=Unit.SHARE)

    return Drawing(title=f"Error rate by {steps.text}", draw=draw)


def _latency(steps: Steps, groups: Sequence[Sequence[Minute]]) -> Drawing:
    series = [
        Series(name=name, values=[_highest(map(read, group)) for group in groups], colour=colour)
        for name, colour, read in (
            ("p50", charts.GREEN, lambda each: each.latency_p50),
            ("p95", charts.VIOLET, lambda each: each.latency_p95),
            ("p99", charts.INK, lambda each: each.latency_p99),
        )
    ]

    def draw(axes: Any) -> None:
        charts.lines_over_time(axes, steps.times, series, width=steps.width, unit=Unit.MS)

    # Percentiles of minutes do not add up to one of a longer time.
    which = "Latency by minute" if steps.step_s == MINUTE_S else f"Slowest minute by {steps.text}"
    return Drawing(title=f"{which}, ms", draw=draw)


def _sums(groups: Sequence[Sequence[Minute]], read: Callable[[Minute], int]) -> list[int]:
    return [sum(map(read, group)) for group in groups]


def _highest(values: Iterable[float | None]) -> float:
    return max((value for value in values if value is not None), default=math.nan)


def _alarms(minutes: Sequence[Minute], alarms: Sequence[Alarm]) -> Drawing:
    drawn = alarms[:SPANS_DRAWN]
    rules = list(dict.fromkeys(each.rule for each in drawn))[:RULES_DRAWN]
    ends = [each.end_s for each in minutes] + [each.until_s or each.since_s for each in drawn]
    starts = [each.start_s for each in minutes] + [each.since_s for each in drawn]
    first_s = min(starts, default=0)
    last_s = max([first_s + MINUTE_S, *ends])

    def draw(axes: Any) -> None:
        start, end = (datetime.fromtimestamp(each, UTC) for each in (first_s, last_s))
        spans = [
            Span(
                name=each.rule,
                start=datetime.fromtimestamp(each.since_s, UTC),
                end=end if each.until_s is None else datetime.fromtimestamp(each.until_s, UTC),
                is_open=each.until_s is None,
            )
            for each in drawn
            if each.rule in rules
        ]
        charts.spans_over_time(axes, spans, start=start, end=end)

    return Drawing(title="Alarms: red ones still sound", draw=draw)


def _table(alarms: Sequence[Alarm]) -> Table:
    def number(value: float | None) -> str:
        return "" if value is None else f"{value:,.6g}"

    return Table(
        title="Alarms",
        columns=(
            Column(name="Rule"),
            Column(name="Began (UTC)"),
            Column(name="Ended (UTC)"),
            Column(name="Value", numbers=True),
            Column(name="Limit", numbers=True),
        ),
        rows=[
            (
                each.rule,
                _text(each.since_s),
                "sounds" if each.until_s is None else _text(each.until_s),
                number(each.value),
                number(each.limit),
            )
            for each in alarms[:ROWS_MAX]
        ],
        empty="No alarm has begun.",
        wide=True,
    )
