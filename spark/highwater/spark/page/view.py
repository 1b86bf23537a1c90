"""What a job shows, before it is a page or a picture: facts, drawings and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from highwater.spark.page import charts, document
from highwater.spark.page.document import Chart, Fact, Page, Table
from highwater.spark.page.labels import visible

WIDE_INCHES: Final = (12.0, 2.6)
HALF_INCHES: Final = (6.0, 3.4)
PICTURE_WIDTH_INCHES: Final = 12.8
_HEADER_INCHES: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """One chart. `draw` gets matplotlib's axes; a chart that is not wide stands beside another one."""

    title: str
    draw: Callable[[Any], None]
    wide: bool = True

    @property
    def inches(self) -> tuple[float, float]:
        """Width and height in a page."""
        return WIDE_INCHES if self.wide else HALF_INCHES


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The whole of one job; `parts` are views of other jobs that follow in the same page."""

    title: str
    subtitle: str
    facts: Sequence[Fact] = ()
    drawings: Sequence[Drawing] = ()
    tables: Sequence[Table] = ()
    parts: Sequence[View] = ()


def to_page(view: View) -> Page:
    """Returns the page, whose charts are drawn."""
    return Page(
        title=view.title,
        subtitle=view.subtitle,
        facts=view.facts,
        charts=tuple(_chart(each, view) for each in view.drawings),
        tables=view.tables,
        parts=tuple(to_page(part) for part in view.parts),
    )


def write_page(view: View, path: Path) -> None:
    """Writes a self-contained page of HTML to `path`, replacing what is there."""
    document.write(to_page(view), path)


def draw_picture(view: View, path: Path) -> None:
    """Writes title, facts and drawings as one PNG to `path`, replacing what is there.

    It is as high as the drawings need; those of parts follow the view's own.
    """
    rows = _rows([each for one in (view, *view.parts) for each in one.drawings])
    heights = [_HEADER_INCHES, *(row[0].inches[1] for row in rows)]
    figure = charts.new_figure(PICTURE_WIDTH_INCHES, sum(heights))
    figure.set_layout_engine("constrained", w_pad=0.15, h_pad=0.12)
    grid = figure.add_gridspec(len(heights), 2, height_ratios=heights)
    figure.add_subplot(grid[0, :]).axis("off")  # Keeps the place free.
    _header(figure, view, sum(heights))
    for number, row in enumerate(rows, start=1):
        for column, drawing in enumerate(row):
            axes = figure.add_subplot(grid[number, :] if drawing.wide else grid[number, column])
            drawing.draw(axes)
            charts.titled(axes, drawing.title)
    charts.save_png(figure, path)


def _chart(drawing: Drawing, view: View) -> Chart:
    width, height = drawing.inches
    # A page may have several views, with drawings of the same title.
    name = f"{view.title}: {drawing.title}"
    svg = charts.to_svg(name, drawing.draw, width_inches=width, height_inches=height)
    return Chart(title=drawing.title, svg=svg, wide=drawing.wide)


def _rows(drawings: Sequence[Drawing]) -> list[list[Drawing]]:
    """One wide drawing in a row, or up to two others."""
    rows: list[list[Drawing]] = []
    for each in drawings:
        last = rows[-1] if rows else []
        if each.wide or len(last) != 1 or last[0].wide:
            rows.append([each])
        else:
            last.append(each)
    return rows


def _header(figure: Figure, view: View, height_inches: float) -> None:
    facts = "   ".join(f"{fact.label}: {fact.value}" for fact in view.facts)
    for down_inches, words, size, colour, weight in (
        (0.12, view.title, 17, charts.INK, "bold"),
        (0.52, view.subtitle, 10.5, charts.FAINT, "normal"),
        (0.77, facts, 9.5, charts.INK, "normal"),
    ):
        line = figure.text(
            0.015, 1 - down_inches / height_inches, visible(words), size=size, color=colour,
            weight=weight, va="top", parse_math=False,
        )  # fmt: skip
        # A long line may run out of the picture; it does not push the charts together.
        line.set_in_layout(False)
