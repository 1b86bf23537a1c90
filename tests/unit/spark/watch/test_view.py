"""What a watch shows."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")
pytest.importorskip("matplotlib", reason="needs the spark extra")

from highwater.spark.page import charts, document, view
from highwater.spark.stream_page import StreamSoFar
from highwater.spark.watch.alarms import AlarmChange
from highwater.spark.watch.minute import Minute
from highwater.spark.watch.view import Alarm, alarms_of, to_view
from tests.support import spark_views


def change(rule: str, *, begins: bool, at_s: int, since_s: int, value: float | None = 5.0):
    limit = None if value is None else 2.0
    return AlarmChange(
        rule=rule, begins=begins, at_s=at_s, since_s=since_s, value=value, limit=limit
    )


def test_a_begin_and_its_end_are_one_alarm():
    changes = [
        change("r", begins=False, at_s=120, since_s=60, value=1.0),
        change("r", begins=True, at_s=60, since_s=60),
        change("r", begins=True, at_s=300, since_s=300),
        change("gone", begins=False, at_s=90, since_s=30, value=None),
    ]
    assert alarms_of(changes) == [
        Alarm(rule="r", since_s=300, until_s=None, value=5.0, limit=2.0),
        Alarm(rule="r", since_s=60, until_s=120, value=5.0, limit=2.0),
        Alarm(rule="gone", since_s=30, until_s=90, value=None, limit=None),
    ]


def test_an_alarm_that_ends_at_its_beginning_has_ended():
    changes = [
        change("r", begins=False, at_s=60, since_s=60),
        change("r", begins=True, at_s=60, since_s=60),
    ]
    assert [each.until_s for each in alarms_of(changes)] == [60]


@pytest.mark.slow
def test_a_page_has_traffic_latency_alarms_and_late_data_and_keeps_names_text():
    page = view.to_page(spark_views.watch())
    assert [chart.title for chart in page.charts] == [
        "Requests per minute",
        "Error rate by minute",
        "Latency by minute, ms",
        "Alarms: red ones still sound",
    ]
    assert [row[2] for row in page.tables[0].rows] == ["sounds", "17 May 2015 11:02"]
    facts = {fact.label: (fact.value, fact.wrong) for fact in page.facts}
    assert facts["Alarms that sound"] == ("1", True)
    assert facts["Alarms that ended"] == ("1", False)
    assert facts["Late, left out"] == ("2", True)
    assert f"fill: {charts.RED}" in page.charts[3].svg
    assert "<script" not in document.render(page)


@pytest.mark.slow
def test_lines_have_no_latency_and_quiet_logs_no_alarms():
    minutes = [Minute(start_s=0, requests=3, errors=1), Minute(start_s=86_400, requests=1)]
    page = view.to_page(to_view("t", minutes, [], StreamSoFar()))
    assert [chart.title for chart in page.charts] == [
        "Requests per 5 minutes",
        "Error rate by 5 minutes",
    ]
    assert page.subtitle == (
        "4 requests in 2 minutes that are closed, 01 Jan 1970 00:00 to 02 Jan 1970 00:01 UTC"
    )
    facts = {fact.label: fact.value for fact in page.facts}
    assert facts["Server errors"] == "1 (25.0%)"


@pytest.mark.slow
def test_before_the_first_minute():
    page = view.to_page(to_view("t", [], [], StreamSoFar()))
    assert page.subtitle == "No minute is closed yet."
    assert len(page.charts) == 2
