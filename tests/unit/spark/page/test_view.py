"""Views as pages and as pictures."""

from __future__ import annotations

import re
import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="needs the spark extra")

from highwater.spark.page import charts, document
from highwater.spark.page.charts import Series
from highwater.spark.page.document import Column, Fact, Table
from highwater.spark.page.view import Drawing, View, draw_picture, to_page, write_page

pytestmark = pytest.mark.slow

START = datetime(2015, 5, 17, 10, tzinfo=UTC)
HOSTILE = r"/$\nonsense{$<b>"


def bars(axes: Any) -> None:
    one = Series(name="requests", values=[1, 2], colour=charts.BLUE)
    hour = timedelta(hours=1)
    charts.bars_over_time(axes, [START, START + hour], [one], width=hour)


def view(*wide: bool, title: str = "a", parts: tuple[View, ...] = ()) -> View:
    return View(
        title=title,
        subtitle=HOSTILE,
        facts=(Fact(label="Rows", value="7"),),
        drawings=[Drawing(title=f"d{n}", draw=bars, wide=each) for n, each in enumerate(wide)],
        tables=(Table(title="t", columns=(Column(name="Path"),), rows=[(HOSTILE,)]),),
        parts=parts,
    )


def size_of(png: Path) -> tuple[int, int]:
    width, height = struct.unpack_from(">II", png.read_bytes(), 16)
    return width, height


def test_a_page_has_everything_of_all_parts_in_order():
    whole = view(True, title="first", parts=(view(False, title="second"),))
    text = document.render(to_page(whole))
    places = [text.index(each) for each in (">first</h1>", ">second</h2>", ">d0</h2>")]
    assert text.count("<svg") == 2
    assert places[0] < places[2] < places[1] < text.rindex("<svg")
    assert text.count("/$\\nonsense{$&lt;b&gt;") == 4


def test_drawings_of_one_title_share_no_ids():
    """An id that two charts have would clip the one by the other's frame."""
    page = to_page(view(True, title="first", parts=(view(True, title="second"),)))
    first, second = (
        set(re.findall(r'clipPath id="([^"]+)"', each.svg))
        for each in (*page.charts, *page.parts[0].charts)
    )
    assert first
    assert not first & second


@pytest.mark.parametrize(
    ("wide", "inches"),
    [
        ((), 1.0),
        ((True,), 3.6),
        ((True, False, False), 7.0),
        ((False, True, False), 10.4),
    ],
)
def test_a_picture_is_as_high_as_its_rows(tmp_path: Path, wide: tuple[bool, ...], inches: float):
    draw_picture(view(*wide), tmp_path / "a.png")
    assert size_of(tmp_path / "a.png") == (1600, round(inches * charts.DOTS_PER_INCH))
    assert [each.name for each in tmp_path.iterdir()] == ["a.png"]


def test_equal_views_give_equal_files(tmp_path: Path):
    for name in ("a", "b"):
        write_page(view(True, False), tmp_path / f"{name}.html")
        draw_picture(view(True, False), tmp_path / f"{name}.png")
    for kind in ("html", "png"):
        first, second = ((tmp_path / f"{name}.{kind}").read_bytes() for name in ("a", "b"))
        assert first == second


@pytest.mark.parametrize("job", ["load", "audit", "watch", "ranking", "crawlers"])
def test_every_job_has_a_picture_whatever_names_there_are(tmp_path: Path, job: str):
    pytest.importorskip("pyspark", reason="needs the spark extra")
    from tests.support import spark_views

    draw_picture(getattr(spark_views, job)(), tmp_path / "a.png")
    assert size_of(tmp_path / "a.png")[1] > 500
    assert (tmp_path / "a.png").stat().st_size > 20_000
