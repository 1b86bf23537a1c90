"""Charts as SVG: well-formed, with their text, and the same for the same data."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="needs the spark extra")

from highwater.spark.page import charts
from highwater.spark.page.charts import Series, Span, Unit
from highwater.spark.page.labels import visible

pytestmark = pytest.mark.slow

HOUR = timedelta(hours=1)
STARTS = [datetime(2015, 5, 17, 10, tzinfo=UTC) + n * HOUR for n in range(5)]


def svg_of(name: str, *series: Series, starts: list[datetime] = STARTS) -> str:
    def draw(axes: Any) -> None:
        charts.bars_over_time(axes, starts, series, width=HOUR)

    return charts.to_svg(name, draw, width_inches=6, height_inches=2)


def one(*values: float) -> Series:
    return Series(name="requests", values=values, colour=charts.BLUE)


def test_is_one_element_for_html() -> None:
    svg = svg_of("a", one(1, 2, 3, 4, 5))
    assert svg.startswith("<svg")
    assert svg.endswith("</svg>")
    root = ET.fromstring(svg)
    texts = [text for text in ("".join(each.itertext()).strip() for each in root.iter()) if text]
    assert any("14:00" in text for text in texts), "hours stand below the bars, as text"


def test_equal_data_give_equal_charts() -> None:
    assert svg_of("a", one(1, 2, 3, 4, 5)) == svg_of("a", one(1, 2, 3, 4, 5))


def test_charts_of_one_page_share_no_ids() -> None:
    """An id that two charts have would clip the one by the other's frame."""

    def clips(svg: str) -> set[str]:
        return set(re.findall(r'clipPath id="([^"]+)"', svg))

    first, second = clips(svg_of("a", one(1, 2, 3, 4, 5))), clips(svg_of("b", one(5, 4, 3, 2, 1)))
    assert first
    assert not first & second


def test_several_series_have_a_legend() -> None:
    both = svg_of(
        "a", one(1, 0, 0, 0, 0), Series(name="errors", values=(0, 1, 0, 0, 2), colour=charts.RED)
    )
    assert "errors" in both
    assert "errors" not in svg_of("a", one(1, 0, 0, 0, 0))


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_to_draw_is_no_error(count: int) -> None:
    assert svg_of("a", one(*[0] * count), starts=STARTS[:count]).startswith("<svg")


def test_a_line_has_gaps_and_a_unit() -> None:
    def draw(axes: Any) -> None:
        values = (0.5, math.nan, 0.25, math.nan, math.nan)
        series = (Series(name="rate", values=values, colour=charts.RED),)
        charts.lines_over_time(axes, STARTS, series, width=HOUR, unit=Unit.SHARE)

    svg = charts.to_svg("a", draw, width_inches=6, height_inches=2)
    assert ">45%<" in svg, "the highest mark below the largest value"
    marks = re.findall(r"<use [^>]*" + charts.RED, svg)
    assert len(marks) == 2, "a value between two gaps is a dot"


@pytest.mark.parametrize("count", [0, 1])
def test_no_line_is_no_error(count: int) -> None:
    series = (Series(name="rate", values=[math.nan] * count, colour=charts.RED),)
    svg = charts.to_svg(
        "a",
        lambda axes: charts.lines_over_time(axes, STARTS[:count], series, width=HOUR),
        width_inches=6,
        height_inches=2,
    )
    assert svg.startswith("<svg")


def test_spans_have_a_row_for_each_name_and_open_ones_stand_out() -> None:
    spans = [
        Span(name="errors", start=STARTS[0], end=STARTS[1], is_open=False),
        Span(name="errors", start=STARTS[2], end=STARTS[2], is_open=False),
        Span(name="$x^{", start=STARTS[1], end=STARTS[4], is_open=True),
    ]
    svg = charts.to_svg(
        "a",
        lambda axes: charts.spans_over_time(axes, spans, start=STARTS[0], end=STARTS[4]),
        width_inches=6,
        height_inches=2,
    )
    assert svg.count("errors</text>") == 1
    assert "$x^{</text>" in svg
    assert svg.count(f"fill: {charts.ORANGE}") == 2
    assert svg.count(f"fill: {charts.RED}") == 1


@pytest.mark.parametrize("name", ["<b>&amp;", "$x^{", "_private", "/文", "a\x1b\u202eb", "$$"])
def test_names_of_clients_are_text_everywhere(name: str) -> None:
    """In a legend and beside bars: no markup, no formula, no letter that ends the drawing."""

    def both(axes: Any) -> None:
        charts.ranking(axes, [name], [1], [charts.BLUE])

    series = [one(1, 2, 3, 4, 5), Series(name=name, values=(1, 1, 1, 1, 1), colour=charts.RED)]
    ranked = charts.to_svg("a", both, width_inches=6, height_inches=2)
    for svg in (svg_of("a", *series), ranked):
        texts = ["".join(each.itertext()).strip() for each in ET.fromstring(svg).iter()]
        assert visible(name) in texts


def test_long_names_are_cut_in_the_middle() -> None:
    svg = charts.to_svg(
        "a",
        lambda axes: charts.ranking(axes, ["/beginning" + "x" * 90 + "end"], [1], [charts.BLUE]),
        width_inches=6,
        height_inches=2,
    )
    assert "/beginning" in svg
    assert "xend" in svg
    assert "…" in svg
    assert "x" * 60 not in svg
