"""What a load shows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")
pytest.importorskip("matplotlib", reason="needs the spark extra")

from highwater.spark import load_view
from highwater.spark.load_run import LoadResult, PartitionLag
from highwater.spark.load_summary import HourRows, LoadSummary
from highwater.spark.page import document, view
from tests.support import spark_views

START = datetime(2024, 1, 2, 3, tzinfo=UTC)
RESULT = LoadResult(
    version=None, offsets=0, records=0, bad=0, lag=0, seconds=1.0,
    partitions=(PartitionLag(topic="t", partition=0, next=5, end=5),),
)  # fmt: skip
EMPTY = LoadSummary(
    rows=0, bad_rows=0, hours=(), bad_hours=(), complaints=(), newest_bad=()
)  # fmt: skip


def facts(result: LoadResult, summary: LoadSummary) -> dict[str, tuple[str, bool]]:
    found = load_view.to_view("table", result, summary).facts
    return {fact.label: (fact.value, fact.wrong) for fact in found}


@pytest.mark.slow
def test_a_page_has_rows_quarantine_and_lag_and_keeps_names_text():
    page = view.to_page(spark_views.load())
    assert [chart.title for chart in page.charts] == [
        "Rows per hour",
        "Values in quarantine per hour",
        "Rows by topic",
        "Lag by partition, offsets",
    ]
    assert page.tables[1].rows[0][3] == spark_views.LINE
    assert [row[0] for row in page.tables[2].rows] == ["orders-0", "events-0", "orders-1"]
    text = document.render(page)
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_what_needs_attention():
    assert facts(RESULT, EMPTY) == {
        "Rows in the table": ("0", False),
        "Values in quarantine": ("0", False),
        "Lag, offsets": ("0", False),
        "Partitions": ("1", False),
    }
    found = facts(replace(RESULT, lag=3), replace(EMPTY, bad_rows=2))
    assert found["Lag, offsets"] == ("3", True)
    assert found["Values in quarantine"] == ("2", True)
    gone = {fact.label: fact.value for fact in spark_views.load().facts}
    assert gone["Gone before they were loaded"] == "2"


@pytest.mark.slow
def test_a_table_without_rows_has_a_page():
    found = load_view.to_view("table", RESULT, EMPTY)
    assert found.subtitle == "The last run found nothing new."
    assert len(view.to_page(found).charts) == 3


@pytest.mark.slow
def test_small_topics_share_a_colour_and_no_row_is_left_out():
    hours = tuple(
        HourRows(topic=f"t{n}", start=START + timedelta(hours=n), rows=10 - n) for n in range(8)
    )
    svg = view.to_page(load_view.to_view("table", RESULT, replace(EMPTY, rows=52, hours=hours)))
    chart = svg.charts[0].svg
    assert all(f"t{n}</text>" in chart for n in range(4))
    assert f"{load_view.OTHERS}</text>" in chart
    assert "t4</text>" not in chart


def test_years_of_rows_are_drawn_in_longer_steps():
    hours = tuple(
        HourRows(topic="t", start=START + timedelta(days=day), rows=1) for day in range(0, 900, 3)
    )
    found = load_view.to_view("table", RESULT, replace(EMPTY, rows=300, hours=hours))
    assert found.drawings[0].title == "Rows per 7 days"
