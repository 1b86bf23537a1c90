"""Drawings that all jobs use, on matplotlib's canvas without a display.

A chart is drawn into axes, so that a job can put several into one picture (`new_figure`, `save_png`)
or each by itself into a page (`to_svg`). Equal data give equal files: what matplotlib would write
of its version, the date and random ids is left out.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from io import StringIO
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib import dates as matplotlib_dates
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, MaxNLocator, PercentFormatter, StrMethodFormatter

from highwater.spark.page.labels import shorten

DOTS_PER_INCH: Final = 125
LEGEND_LENGTH_MAX: Final = 28
"""Of a name in a legend, which has several beside each other."""

INK: Final = "#22303c"
FAINT: Final = "#8a97a3"
BLUE: Final = "#2f6f9f"
GREEN: Final = "#3a9c83"
VIOLET: Final = "#7a6ba8"
ORANGE: Final = "#d98e2b"
RED: Final = "#c4483f"
_GRID: Final = "#e3e8ec"

# Parts of matplotlib have no types for arguments; mypy would refuse calls of them.
_DATES: Final[Any] = matplotlib_dates
_BAR_SHARE: Final = 0.86
_RANKED_LEAST: Final = 5
# Formats from years to seconds, as matplotlib wants them.
_TIMES: Final = ["%Y", "%b", "%d %b", "%H:%M", "%H:%M", "%S.%f"]
_ROUND_TIMES: Final = ["", "%Y", "%b", "%d %b", "%H:%M", "%H:%M"]


class Unit(Enum):
    """What the values of a chart over time are."""

    COUNT = "count"
    BYTES = "bytes"
    SHARE = "share"
    MS = "ms"


_FORMATTERS: Final[Mapping[Unit, Callable[[], Any]]] = {
    Unit.COUNT: lambda: StrMethodFormatter("{x:,.0f}"),
    Unit.BYTES: lambda: EngFormatter(unit="B"),
    Unit.SHARE: lambda: PercentFormatter(xmax=1),
    Unit.MS: lambda: StrMethodFormatter("{x:,.6g} ms"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One value for each of a chart's times, drawn in one colour.

    In a chart of lines NaN leaves a gap.
    """

    name: str
    values: Sequence[float]
    colour: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of time in the row of `name`; `is_open` if it had not ended by then."""

    name: str
    start: datetime
    end: datetime
    is_open: bool


def new_figure(width_inches: float, height_inches: float) -> Figure:
    """Returns an empty white figure."""
    return Figure(figsize=(width_inches, height_inches), dpi=DOTS_PER_INCH, facecolor="white")


def save_png(figure: Figure, path: Path) -> None:
    """Writes the figure to `path`, replacing atomically what is there."""
    FigureCanvasAgg(figure)
    draft = path.with_suffix(".tmp")
    with _any_letters():
        figure.savefig(draft, format="png", metadata={"Software": None})
    draft.replace(path)


def to_svg(
    name: str, draw: Callable[[Any], None], *, width_inches: float, height_inches: float
) -> str:
    """Returns the element `svg` of a chart that `draw` draws into axes.

    `name` has to differ between the charts of a page: the ids inside are derived from it. Text
    stays text.
    """
    figure = new_figure(width_inches, height_inches)
    FigureCanvasSVG(figure)
    draw(figure.add_subplot())
    out = StringIO()
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}), _any_letters():
        figure.savefig(
            out,
            format="svg",
            bbox_inches="tight",
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    document = out.getvalue()
    # The declaration of XML and the document type before it have no place inside HTML.
    return document[document.index("<svg") :].strip()


def bars_over_time(
    axes: Any,
    starts: Sequence[datetime],
    series: Sequence[Series],
    *,
    width: timedelta,
    unit: Unit = Unit.COUNT,
) -> None:
    """Draws a bar for each of the times (UTC), the series of each on top of each other."""
    below = [0.0] * len(starts)
    for each in series:
        axes.bar(
            starts, each.values, width=width * _BAR_SHARE, align="edge", bottom=below,
            color=each.colour,
        )  # fmt: skip
        below = [one + other for one, other in zip(below, each.values, strict=True)]
    _value_axis(axes, max(below, default=0.0), unit)
    if starts:
        _time_axis(axes, starts[0], starts[-1] + width)
    _legend(axes, series)


def lines_over_time(
    axes: Any,
    starts: Sequence[datetime],
    series: Sequence[Series],
    *,
    width: timedelta,
    unit: Unit = Unit.COUNT,
) -> None:
    """Draws a line for each series, and a dot for each value: one between two gaps is seen, too."""
    for each in series:
        axes.plot(starts, each.values, color=each.colour, linewidth=1.5, marker="o", markersize=2.5)
    known = [value for each in series for value in each.values if not math.isnan(value)]
    _value_axis(axes, max(known, default=0.0), unit)
    if starts:
        _time_axis(axes, starts[0], starts[-1] + width)
    _legend(axes, series)


def spans_over_time(axes: Any, spans: Sequence[Span], *, start: datetime, end: datetime) -> None:
    """Draws a row for each name, the first on top; spans that are open stand out."""
    plain(axes)
    axes.grid(axis="x", color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    names = list(dict.fromkeys(span.name for span in spans))
    for span in spans:
        colour = RED if span.is_open else ORANGE
        left = _DATES.date2num(span.start)
        # The edge is seen where the span is shorter than a dot.
        axes.barh(
            names.index(span.name), _DATES.date2num(span.end) - left, left=left, height=0.55,
            color=colour, edgecolor=colour, linewidth=2,
        )  # fmt: skip
    axes.set_yticks(range(len(names)), [shorten(name) for name in names], parse_math=False)
    axes.set_ylim(len(names) - 0.5, -0.5)
    _time_axis(axes, _DATES.date2num(start), _DATES.date2num(end))


def ranking(axes: Any, names: Sequence[str], counts: Sequence[int], colours: Sequence[str]) -> None:
    """Draws a bar for each name, the first on top, with its count behind it."""
    plain(axes)
    rows = range(len(names))
    bars = axes.barh(rows, counts, color=colours, height=0.68)
    axes.bar_label(bars, [f"{count:,}" for count in counts], padding=4, fontsize=9, color=INK)
    # Names come from clients: a dollar sign in them does not begin a formula.
    axes.set_yticks(rows, [shorten(name) for name in names], parse_math=False)
    # A few bars are not as thick as the chart is high.
    axes.set_ylim(max(len(names), _RANKED_LEAST) - 0.5, -0.5)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.margins(x=0.12)  # Room for the number behind the longest bar.


def titled(axes: Any, title: str) -> None:
    """Writes a title above the axes, for charts that stand in one picture."""
    axes.set_title(title, loc="left", fontsize=11.5, fontweight="bold", color=INK, pad=8)


def plain(axes: Any) -> None:
    """Takes away the frame and the ticks."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)
    axes.tick_params(length=0, labelsize=9, colors=INK)


def bytes_text(size: int) -> str:
    """Returns a size such as `2.7 GB`."""
    text: str = EngFormatter(unit="B", places=1)(size)
    return text


def _value_axis(axes: Any, highest: float, unit: Unit) -> None:
    plain(axes)
    axes.grid(axis="y", color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)  # The grid stays behind what is drawn.
    axes.set_ylim(bottom=0, top=None if highest > 0 else 1)
    axes.yaxis.set_major_formatter(_FORMATTERS[unit]())
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, min_n_ticks=1, integer=unit is Unit.COUNT))


def _time_axis(axes: Any, start: Any, end: Any) -> None:
    dates = _DATES.AutoDateLocator(tz=UTC, minticks=4, maxticks=12)
    axes.xaxis.set_major_locator(dates)
    axes.xaxis.set_major_formatter(
        _DATES.ConciseDateFormatter(
            dates, tz=UTC, show_offset=False, formats=_TIMES, zero_formats=_ROUND_TIMES
        )
    )
    axes.set_xlim(start, end)


def _legend(axes: Any, series: Sequence[Series]) -> None:
    if len(series) < 2:
        return
    # Patches of our own: matplotlib leaves out whatever has a label that begins with an underscore.
    handles = [Patch(color=each.colour) for each in series]
    # Above the axes, where nothing that is drawn can be behind it.
    legend = axes.legend(
        handles, [f" {shorten(each.name, LEGEND_LENGTH_MAX)}" for each in series],
        loc="lower right", bbox_to_anchor=(1, 1), frameon=False, fontsize=9, labelcolor=INK,
        ncols=len(series), handlelength=0.8, handletextpad=0.2,
    )  # fmt: skip
    for text in legend.get_texts():
        # Names come from clients: a dollar sign in them does not begin a formula.
        text.set_parse_math(False)


@contextmanager
def _any_letters() -> Iterator[None]:
    """Clients' names may be in any script; a letter that the font lacks is drawn as a box."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        yield
