"""What a mirror shows, and when its page is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")
pytest.importorskip("matplotlib", reason="needs the spark extra")

from highwater.spark.mirror.progress import MirrorProgress, TopicProgress
from highwater.spark.mirror.view import REDRAW_S, TOLD_MAX, MirrorPage, MirrorSoFar, to_view
from highwater.spark.page import document, view
from highwater.spark.page.files import PageFiles
from tests.support import spark_views


def progress(records: int = 10, lag: int = 0) -> MirrorProgress:
    return MirrorProgress(
        source="east", round=1, topics=1, records=records, records_per_s=5.0, size_bytes=1,
        transactions=1, offsets={"t-0": records}, lag=lag, skipped=0, moved=0, seconds=2.0,
        by_topic={"t": TopicProgress(records=records, lag=lag)},
    )  # fmt: skip


@pytest.mark.slow
def test_a_page_has_rows_rates_and_lag_and_keeps_names_text():
    page = view.to_page(spark_views.mirror())
    assert [chart.title for chart in page.charts] == [
        "Rows copied per minute",
        "Rows/s by topic, of the rounds' time",
        "Lag by topic, offsets",
    ]
    assert page.tables[0].rows[0] == ("east", "orders-0", "2,900")
    text = document.render(page)
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_what_needs_attention():
    facts = {fact.label: (fact.value, fact.wrong) for fact in spark_views.mirror().facts}
    assert facts["Lag, offsets"] == ("17", True)
    assert facts["Gone before they were copied"] == ("2", True)
    assert facts["Sources"] == ("2", False)
    assert facts["Records copied by this run"] == ("6,170", False)
    nothing = to_view("h:1", MirrorSoFar())
    assert {fact.label for fact in nothing.facts if fact.wrong} == set()
    assert nothing.subtitle == "From no source yet."


def test_what_is_kept_has_a_limit():
    found = MirrorSoFar()
    for number in range(TOLD_MAX + 5):
        found.told.append(str(number))
    found.add(progress(records=0), 60)
    assert len(found.told) == TOLD_MAX
    # A round without records is no bar of a chart.
    assert len(found.rounds) == 0


@pytest.mark.slow
def test_it_is_drawn_once_a_minute_and_at_the_end(tmp_path: Path):
    clock = [0.0]
    html = tmp_path / "mirror.html"
    page = MirrorPage(
        PageFiles(html=html), "h:1", now=lambda: clock[0], clock=lambda: 1_700_000_000.0
    )  # fmt: skip
    page.sentence("first")
    page.progress(progress())
    assert "first" in html.read_text()
    page.sentence("second")
    page.progress(progress(records=20))
    assert "second" not in html.read_text()
    clock[0] = REDRAW_S
    page.progress(progress(records=30))
    assert "second" in html.read_text()
    page.sentence("third")
    page.draw()
    assert "third" in html.read_text()


def test_no_page_is_drawn_that_nobody_asked_for(tmp_path: Path):
    page = MirrorPage(PageFiles(), "h:1")
    page.progress(progress())
    page.draw()
    assert list(tmp_path.iterdir()) == []
