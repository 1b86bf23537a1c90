"""What a comparison shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")
pytest.importorskip("matplotlib", reason="needs the spark extra")

from highwater.spark import audit_view
from highwater.spark.audit_run import AuditResult, ComparedHour, GroupDifference, OutsideRows
from highwater.spark.load_plan import Gone
from highwater.spark.page import document, view
from tests.support import spark_views


@pytest.mark.slow
def test_a_page_has_the_hours_and_partitions_that_differ_and_keeps_names_text():
    page = view.to_page(spark_views.audit())
    assert [chart.title for chart in page.charts] == [
        "Records compared per hour",
        "Hours that differ, by partition",
        "Offsets that differ, by kind",
    ]
    assert page.tables[0].rows[0] == ("orders-0", "2015-05-17 10:00", "40", "39")
    assert [row[2] for row in page.tables[1].rows] == ["missing", "altered", "altered"]
    assert {fact.label: fact.value for fact in page.facts if fact.wrong} == {
        "Hours that differ": "3"
    }
    assert "<script" not in document.render(page)


@pytest.mark.slow
def test_equal_tables_have_a_page_without_a_warning():
    result = AuditResult(
        records=7, groups=2, different=(), offsets=(),
        uncompared=(Gone(topic="t", partition=1, start=0, end=5),),
        hours=(ComparedHour(hour=3600, equal=7, differing=0),),
    )  # fmt: skip
    found = audit_view.to_view("table", result)
    assert found.subtitle == "All 2 hours of partitions that were compared are equal."
    assert not any(fact.wrong for fact in found.facts)
    assert found.tables[2].rows == [("t-1", "0", "5")]
    assert [chart.title for chart in view.to_page(found).charts] == ["Records compared per hour"]


def test_a_time_beyond_all_calendars_is_listed_and_not_drawn():
    hour = 3600 * 10**12
    result = AuditResult(
        records=1, groups=1, offsets=(), uncompared=(),
        different=(
            GroupDifference(topic="t", topic_id="i", partition=0, hour=hour, in_log=1, in_table=0),
        ),
        hours=(ComparedHour(hour=hour, equal=0, differing=1),),
    )  # fmt: skip
    found = audit_view.to_view("table", result)
    assert found.tables[0].rows[0][1] == f"{hour} s"
    assert found.drawings[0].title == "Records compared per hour"


def test_rows_of_no_load_need_attention():
    rows = OutsideRows(topic="t", topic_id="id", partition=3, rows=2, is_older=False)
    result = AuditResult(
        records=1, groups=1, different=(), offsets=(), uncompared=(),
        outside=(rows, replace(rows, topic_id="old", is_older=True)),
    )  # fmt: skip
    found = audit_view.to_view("table", result)
    assert found.subtitle.endswith("compared are equal. 2 rows are of no load.")
    assert [fact.label for fact in found.facts if fact.wrong] == ["Rows of no load"]
    assert found.tables[3].rows == [
        ("t-3", "id", "2", "no load"),
        ("t-3", "old", "2", "an older topic of this name"),
    ]
