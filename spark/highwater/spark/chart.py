"""The access log report as one picture."""

from datetime import UTC, timedelta
from pathlib import Path
from typing import Any, Final

from matplotlib import dates as matplotlib_dates
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator, StrMethodFormatter

from highwater.spark.report import HourTraffic, Report

SIZE_INCHES: Final = (12.8, 9.0)
DOTS_PER_INCH: Final = 125
PATHS_MAX: Final = 10
STATUS_CODES_MAX: Final = 10
LABEL_LENGTH_MAX: Final = 42

_INK: Final = "#22303c"
_FAINT: Final = "#8a97a3"
_GRID: Final = "#e3e8ec"
_REQUESTS: Final = "#2f6f9f"
_BYTES: Final = "#3a9c83"
_PATHS: Final = "#7a6ba8"
_STATUS_COLOURS: Final = {2: "#3a9c83", 3: "#2f6f9f", 4: "#d98e2b", 5: "#c4483f"}
# Parts of matplotlib have no types for arguments; mypy would refuse calls of them.
_DATES: Final[Any] = matplotlib_dates
_HOUR: Final = timedelta(hours=1)
_BAR_SHARE: Final = 0.86
# Formats from years to seconds, as matplotlib wants them.
_TIMES: Final = ["%Y", "%b", "%d %b", "%H:%M", "%H:%M", "%S.%f"]
_ROUND_TIMES: Final = ["", "%Y", "%b", "%d %b", "%H:%M", "%H:%M"]


def draw(report: Report, path: Path) -> None:
    """Writes the report as a PNG of 1600 x 1125 dots to `path`, replacing what is there."""
    figure = Figure(figsize=SIZE_INCHES, dpi=DOTS_PER_INCH, facecolor="white")
    FigureCanvasAgg(figure)
    figure.text(
        0.045, 0.955, f"Traffic in topic {report.topic}", size=17, weight="bold", color=_INK
    )
    figure.text(0.045, 0.928, _subtitle(report), size=10.5, color=_FAINT)
    times = figure.add_gridspec(2, 1, left=0.075, right=0.965, top=0.87, bottom=0.44, hspace=0.46)
    upper = figure.add_subplot(times[0])
    lower = figure.add_subplot(times[1], sharex=upper)
    _hours(upper, report.hours, "Requests per hour", _REQUESTS, of_bytes=False)
    _hours(lower, report.hours, "Bytes per hour", _BYTES, of_bytes=True)
    # A wider left margin than above: the names of paths need it.
    ranks = figure.add_gridspec(
        1, 2, left=0.30, right=0.965, top=0.345, bottom=0.03, width_ratios=(1.3, 1), wspace=0.2
    )
    paths = report.top_paths[:PATHS_MAX]
    _ranking(
        figure.add_subplot(ranks[0]),
        "Top paths by requests",
        [_shorten(each.path) for each in paths],
        [each.requests for each in paths],
        [_PATHS] * len(paths),
    )
    codes = report.status_codes[:STATUS_CODES_MAX]
    _ranking(
        figure.add_subplot(ranks[1]),
        "Status codes",
        [str(each.status) for each in codes],
        [each.requests for each in codes],
        [_STATUS_COLOURS.get(each.status // 100, _FAINT) for each in codes],
    )
    draft = path.with_suffix(".tmp")
    # Leave out matplotlib's version, so that equal reports give equal files.
    figure.savefig(draft, format="png", metadata={"Software": None})
    draft.replace(path)


def _subtitle(report: Report) -> str:
    if not report.hours:
        return "No requests."
    first, last = report.hours[0].start, report.hours[-1].start + _HOUR
    text = (
        f"{report.requests:,} requests, {_of_bytes(report.size_bytes)} sent, "
        f"{first:%d %b %Y %H:%M} to {last:%d %b %Y %H:%M} UTC"
    )
    return f"{text}; {report.unparsed:,} records not in the format" if report.unparsed else text


def _of_bytes(size: int) -> str:
    text: str = EngFormatter(unit="B", places=1)(size)
    return text


def _hours(
    axes: Any, hours: tuple[HourTraffic, ...], title: str, colour: str, *, of_bytes: bool
) -> None:
    _plain(axes, title)
    axes.grid(axis="y", color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)  # The grid stays behind the bars.
    axes.bar(
        [hour.start for hour in hours],
        [hour.size_bytes if of_bytes else hour.requests for hour in hours],
        width=_HOUR * _BAR_SHARE, align="edge", color=colour,
    )  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(
        EngFormatter(unit="B") if of_bytes else StrMethodFormatter("{x:,.0f}")
    )
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, min_n_ticks=4))
    dates = _DATES.AutoDateLocator(tz=UTC, minticks=4, maxticks=12)
    axes.xaxis.set_major_locator(dates)
    axes.xaxis.set_major_formatter(
        _DATES.ConciseDateFormatter(
            dates, tz=UTC, show_offset=False, formats=_TIMES, zero_formats=_ROUND_TIMES
        )
    )
    if hours:
        axes.set_xlim(hours[0].start, hours[-1].start + _HOUR)


def _ranking(
    axes: Any, title: str, names: list[str], counts: list[int], colours: list[str]
) -> None:
    _plain(axes, title)
    rows = range(len(names))
    bars = axes.barh(rows, counts, color=colours, height=0.68)
    axes.bar_label(bars, [f"{count:,}" for count in counts], padding=4, fontsize=9, color=_INK)
    axes.set_yticks(rows, names)
    axes.invert_yaxis()
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.margins(x=0.12)  # Room for the number behind the longest bar.


def _plain(axes: Any, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=11.5, fontweight="bold", color=_INK, pad=8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_FAINT)
    axes.tick_params(length=0, labelsize=9, colors=_INK)


def _shorten(name: str) -> str:
    """Cuts a long path in the middle, to show both its directory and its file."""
    if len(name) <= LABEL_LENGTH_MAX:
        return name
    kept = LABEL_LENGTH_MAX - 1
    return f"{name[: kept // 3]}…{name[-(kept - kept // 3) :]}"
