"""What a ranking shows."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")
pytest.importorskip("matplotlib", reason="needs the spark extra")

from highwater.spark.page import document, view
from highwater.spark.ranking.board import Place
from highwater.spark.ranking.view import WINDOWS_LISTED, to_view
from highwater.spark.stream_page import StreamSoFar
from tests.support import spark_views


@pytest.mark.slow
def test_a_page_has_the_first_items_over_time_and_keeps_their_names_text():
    page = view.to_page(spark_views.ranking())
    assert [chart.title for chart in page.charts] == [
        "Views of the newest window's first items, by window",
        "Newest window, views",
        "Newest window, clicks",
    ]
    assert "_private</text>" in page.charts[0].svg
    assert page.tables[0].rows[1] == ("2", "/blog/", "82", "10", "10.0%")
    assert page.tables[1].rows[0][0] == "19 May 2015 09:00"
    text = document.render(page)
    assert "<script" not in text
    assert "\u202e" not in text


def place(window: int, rank: int, item: str, views: int) -> Place:
    return Place(
        window_start_s=window * 60, window_end_s=window * 60 + 600, rank=rank, item=item,
        views=views, clicks=0, click_through=None,
    )  # fmt: skip


def test_only_the_newest_window_is_the_newest():
    places = [place(0, 1, "/old", 9), place(1, 1, "/new", 5), place(1, 2, "/old", 4)]
    found = to_view("t", places, StreamSoFar())
    assert [row[1] for row in found.tables[0].rows] == ["/new", "/old"]
    assert [row[1] for row in found.tables[1].rows] == ["/new", "/old"]
    assert found.tables[0].rows[0][4] == "", "no click-through without a site"
    assert found.subtitle == "Newest closed window: 01 Jan 1970 00:01 to 01 Jan 1970 00:11 UTC"


def test_the_list_of_windows_ends_somewhere():
    places = [place(number, 1, "/", 1) for number in range(WINDOWS_LISTED + 5)]
    assert len(to_view("t", places, StreamSoFar()).tables[1].rows) == WINDOWS_LISTED


@pytest.mark.slow
def test_before_the_first_window():
    page = view.to_page(to_view("t", [], StreamSoFar()))
    assert page.subtitle == "No window is closed yet."
    assert all(each.svg.startswith("<svg") for each in page.charts)
