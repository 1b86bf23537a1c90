"""Drawings that all jobs use, on matplotlib's canvas without a display.

A chart is drawn into axes, so that a job can put several into one picture (`new_figure`, `save_png`)
or each by itself into a page (`to_svg`). Equal data give equal files: what matplotlib would write
of its version, the date and random ids is left out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib import dates as matplotlib_dates
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator, StrMethodFormatter

DOTS_PER_INCH: Final = 125
LABEL_LENGTH_MAX: Final = 42

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
# Formats from years to seconds, as matplotlib wants them.
_TIMES: Final = ["%Y", "%b", "%d %b", "%H:%M", "%H:%M", "%S.%f"]
_ROUND_TIMES: Final = ["", "%Y", "%b", "%d %b", "%H:%M", "%H:%M"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One value for each of a chart's times, drawn in one colour."""

    name: str
    values: Sequence[float]
    colour: str


def new_figure(width_inches: float, height_inches: float) -> Figure:
    """Returns an empty white figure."""
    return Figure(figsize=(width_inches, height_inches), dpi=DOTS_PER_INCH, facecolor="white")


def save_png(figure: Figure, path: Path) -> None:
    """Writes the figure to `path`, replacing atomically what is there."""
    FigureCanvasAgg(figure)
    draft = path.with_suffix(".tmp")
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
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
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
    of_bytes: bool = False,
) -> None:
    """Draws a bar for each of the times (UTC), the series of each on top of each other."""
    plain(axes)
    axes.grid(axis="y", color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)  # The grid stays behind the bars.
    below = [0.0] * len(starts)
    for each in series:
        axes.bar(
            starts, each.values, width=width * _BAR_SHARE, align="edge", bottom=below,
            color=each.colour, label=each.name,
        )  # fmt: skip
        below = [one + other for one, other in zip(below, each.values, strict=True)]
    if len(series) > 1:
        # Above the axes, where no bar can be behind it.
        axes.legend(
            loc="lower right", bbox_to_anchor=(1, 1), frameon=False, fontsize=9, labelcolor=INK,
            ncols=len(series),
        )  # fmt: skip
    axes.set_ylim(bottom=0, top=None if any(below) else 1)
    axes.yaxis.set_major_formatter(
        EngFormatter(unit="B") if of_bytes else StrMethodFormatter("{x:,.0f}")
    )
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, min_n_ticks=1, integer=not of_bytes))
    dates = _DATES.AutoDateLocator(tz=UTC, minticks=4, maxticks=12)
    axes.xaxis.set_major_locator(dates)
    axes.xaxis.set_major_formatter(
        _DATES.ConciseDateFormatter(
            dates, tz=UTC, show_offset=False, formats=_TIMES, zero_formats=_ROUND_TIMES
        )
    )
    if starts:
        axes.set_xlim(starts[0], starts[-1] + width)


def ranking(axes: Any, names: Sequence[str], counts: Sequence[int], colours: Sequence[str]) -> None:
    """Draws a bar for each name, the first on top, with its count behind it."""
    plain(axes)
    rows = range(len(names))
    bars = axes.barh(rows, counts, color=colours, height=0.68)
    axes.bar_label(bars, [f"{count:,}" for count in counts], padding=4, fontsize=9, color=INK)
    # Names come from clients: a dollar sign in them does not begin a formula.
    axes.set_yticks(rows, [_shorten(name) for name in names], parse_math=False)
    axes.invert_yaxis()
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


def _shorten(name: str) -> str:
    """Cuts a long name in the middle, to show both its beginning and its end."""
    if len(name) <= LABEL_LENGTH_MAX:
        return name
    kept = LABEL_LENGTH_MAX - 1
    return f"{name[: kept // 3]}…{name[-(kept - kept // 3) :]}"
