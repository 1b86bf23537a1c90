"""Charts as SVG: well-formed, with their text, and the same for the same data."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="needs the spark extra")

from highwater.spark.page import charts
from highwater.spark.page.charts import Series

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
