"""The report for people: as one picture, and as a page of HTML."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from highwater.spark.page import charts, view
from highwater.spark.page.charts import Series, Unit
from highwater.spark.page.document import Column, Fact, Page, Table
from highwater.spark.page.labels import visible
from highwater.spark.page.view import Drawing, View
from highwater.spark.report import Report

PICTURE_INCHES: Final = (12.8, 9.0)
RANKED_MAX: Final = 10
"""How many paths and how many status codes are drawn; the page lists all of the report's."""

_STATUS_COLOURS: Final = {2: charts.GREEN, 3: charts.BLUE, 4: charts.ORANGE, 5: charts.RED}
_HOUR: Final = timedelta(hours=1)


def draw_picture(report: Report, path: Path) -> None:
    """Writes the report as a PNG of 1600 x 1125 dots to `path`, replacing what is there."""
    figure = charts.new_figure(*PICTURE_INCHES)
    figure.text(
        0.045,
        0.955,
        visible(report.title),
        parse_math=False,
        size=17,
        weight="bold",
        color=charts.INK,
    )
    figure.text(0.045, 0.928, _subtitle(report), size=10.5, color=charts.FAINT)
    times = figure.add_gridspec(2, 1, left=0.075, right=0.965, top=0.87, bottom=0.44, hspace=0.46)
    upper = figure.add_subplot(times[0])
    lower = figure.add_subplot(times[1], sharex=upper)
    # A wider left margin than above: the names of paths need it.
    ranks = figure.add_gridspec(
        1, 2, left=0.30, right=0.965, top=0.345, bottom=0.03, width_ratios=(1.3, 1), wspace=0.2
    )
    for axes, name, draw in (
        (upper, "Requests per hour", _requests),
        (lower, "Bytes per hour", _bytes),
        (figure.add_subplot(ranks[0]), "Top paths by requests", _paths),
        (figure.add_subplot(ranks[1]), "Status codes", _status_codes),
    ):
        draw(axes, report)
        charts.titled(axes, name)
    charts.save_png(figure, path)


def write_page(report: Report, path: Path) -> None:
    """Writes the report as a self-contained page of HTML to `path`, replacing what is there."""
    view.write_page(to_view(report), path)


def to_page(report: Report) -> Page:
    """Returns the report's page."""
    return view.to_page(to_view(report))


def to_view(report: Report) -> View:
    """Returns what the report shows."""
    return View(
        title=report.title,
        subtitle=_subtitle(report),
        facts=_facts(report),
        drawings=(
            _drawing("Requests per hour", _requests, report),
            _drawing("Bytes per hour", _bytes, report),
            _drawing("Errors per hour", _errors, report),
            _drawing("Top paths by requests", _paths, report, wide=False),
            _drawing("Status codes", _status_codes, report, wide=False),
        ),
        tables=(
            Table(
                title="Top paths",
                columns=(
                    Column(name="Path"),
                    Column(name="Requests", numbers=True),
                    Column(name="Sent", numbers=True),
                ),
                rows=[
                    (path.path, f"{path.requests:,}", charts.bytes_text(path.size_bytes))
                    for path in report.top_paths
                ],
                empty="No requests.",
            ),
            Table(
                title="Answers by status code",
                columns=(Column(name="Status"), Column(name="Requests", numbers=True)),
                rows=[(str(code.status), f"{code.requests:,}") for code in report.status_codes],
                empty="No requests.",
            ),
        ),
    )


def _facts(report: Report) -> tuple[Fact, ...]:
    share = report.errors / report.requests if report.requests else 0.0
    return (
        Fact(label="Records", value=f"{report.records:,}"),
        Fact(label="Requests", value=f"{report.requests:,}"),
        Fact(label="Sent", value=charts.bytes_text(report.size_bytes)),
        Fact(label="Errors", value=f"{report.errors:,} ({share:.1%})"),
        Fact(label="Not in the format", value=f"{report.unparsed:,}", wrong=report.unparsed > 0),
    )


def _drawing(
    title: str, draw: Callable[[Any, Report], None], report: Report, *, wide: bool = True
) -> Drawing:
    return Drawing(title=title, draw=lambda axes: draw(axes, report), wide=wide)


def _subtitle(report: Report) -> str:
    if not report.hours:
        return "No requests."
    first, last = report.hours[0].start, report.hours[-1].start + _HOUR
    text = (
        f"{report.requests:,} requests, {charts.bytes_text(report.size_bytes)} sent, "
        f"{first:%d %b %Y %H:%M} to {last:%d %b %Y %H:%M} UTC"
    )
    return f"{text}; {report.unparsed:,} records not in the format" if report.unparsed else text


def _over_hours(axes: Any, report: Report, *series: Series, unit: Unit = Unit.COUNT) -> None:
    starts = [hour.start for hour in report.hours]
    charts.bars_over_time(axes, starts, series, width=_HOUR, unit=unit)


def _requests(axes: Any, report: Report) -> None:
    values = [hour.requests for hour in report.hours]
    _over_hours(axes, report, Series(name="requests", values=values, colour=charts.BLUE))


def _bytes(axes: Any, report: Report) -> None:
    values = [hour.size_bytes for hour in report.hours]
    one = Series(name="bytes", values=values, colour=charts.GREEN)
    _over_hours(axes, report, one, unit=Unit.BYTES)


def _errors(axes: Any, report: Report) -> None:
    clients = [hour.client_errors for hour in report.hours]
    servers = [hour.server_errors for hour in report.hours]
    _over_hours(
        axes,
        report,
        Series(name="client errors (4xx)", values=clients, colour=charts.ORANGE),
        Series(name="server errors (5xx)", values=servers, colour=charts.RED),
    )


def _paths(axes: Any, report: Report) -> None:
    paths = report.top_paths[:RANKED_MAX]
    charts.ranking(
        axes,
        [each.path for each in paths],
        [each.requests for each in paths],
        [charts.VIOLET] * len(paths),
    )


def _status_codes(axes: Any, report: Report) -> None:
    codes = report.status_codes[:RANKED_MAX]
    charts.ranking(
        axes,
        [str(each.status) for each in codes],
        [each.requests for each in codes],
        [_STATUS_COLOURS.get(each.status // 100, charts.FAINT) for each in codes],
    )
