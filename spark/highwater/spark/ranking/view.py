"""A ranking for people: the newest window, and how the first items of it did in the windows before."""

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from highwater.spark.page import charts
from highwater.spark.page.charts import Series
from highwater.spark.page.document import Column, Fact, Table
from highwater.spark.page.view import Drawing, View
from highwater.spark.ranking.board import Place
from highwater.spark.stream_page import StreamSoFar

ITEMS_DRAWN: Final = 5
WINDOWS_LISTED: Final = 50

_COLOURS: Final = (charts.BLUE, charts.ORANGE, charts.GREEN, charts.VIOLET, charts.RED)


def to_view(topic: str, places: Sequence[Place], so_far: StreamSoFar) -> View:
    """Returns what there is to see of the places, which are in the order of time and rank."""
    windows = list(dict.fromkeys(each.window_start_s for each in places))
    newest = [each for each in places if each.window_start_s == windows[-1]]
    return View(
        title=f"Ranking of topic {topic}",
        subtitle=_subtitle(newest),
        facts=(Fact(label="Closed windows drawn", value=f"{len(windows):,}"), *so_far.facts()),
        drawings=(
            _over_time(places, newest),
            _first("Newest window, views", newest, lambda each: each.views, charts.VIOLET),
            _first("Newest window, clicks", newest, lambda each: each.clicks, charts.GREEN),
        ),
        tables=(_newest(newest), _leaders(places, windows), so_far.table()),
    )


def _text(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%d %b %Y %H:%M}"


def _subtitle(newest: Sequence[Place]) -> str:
    if not newest:
        return "No window is closed yet."
    first = newest[0]
    return f"Newest closed window: {_text(first.window_start_s)} to {_text(first.window_end_s)} UTC"


def _over_time(places: Sequence[Place], newest: Sequence[Place]) -> Drawing:
    starts = list(dict.fromkeys(each.window_start_s for each in places))
    items = [each.item for each in newest[:ITEMS_DRAWN]]
    values = {(each.item, each.window_start_s): each.views for each in places}
    series = [
        Series(
            name=item,
            # An item that is not among the first of a window leaves a gap.
            values=[values.get((item, start), math.nan) for start in starts],
            colour=colour,
        )
        for item, colour in zip(items, _COLOURS, strict=False)
    ]

    def draw(axes: Any) -> None:
        times = [datetime.fromtimestamp(start, UTC) for start in starts]
        charts.lines_over_time(axes, times, series, width=timedelta(minutes=1))

    return Drawing(title="Views of the newest window's first items, by window", draw=draw)


def _first(
    title: str, newest: Sequence[Place], read: Callable[[Place], int], colour: str
) -> Drawing:
    def draw(axes: Any) -> None:
        names = [f"{each.rank}. {each.item}" for each in newest]
        charts.ranking(axes, names, list(map(read, newest)), [colour] * len(newest))

    return Drawing(title=title, draw=draw, wide=False)


def _newest(newest: Sequence[Place]) -> Table:
    return Table(
        title="Newest closed window",
        columns=(
            Column(name="Rank", numbers=True),
            Column(name="Item"),
            Column(name="Views", numbers=True),
            Column(name="Clicks", numbers=True),
            Column(name="Click-through", numbers=True),
        ),
        rows=[
            (
                str(each.rank),
                each.item,
                f"{each.views:,}",
                f"{each.clicks:,}",
                "" if each.click_through is None else f"{each.click_through:.1%}",
            )
            for each in newest
        ],
        empty="No window is closed yet.",
    )


def _leaders(places: Sequence[Place], windows: Sequence[int]) -> Table:
    listed = set(windows[-WINDOWS_LISTED:])
    return Table(
        title="First of each window",
        columns=(
            Column(name="Window from (UTC)"),
            Column(name="Item"),
            Column(name="Views", numbers=True),
        ),
        rows=[
            (_text(each.window_start_s), each.item, f"{each.views:,}")
            for each in reversed(places)
            if each.rank == 1 and each.window_start_s in listed
        ],
        empty="No window is closed yet.",
    )
