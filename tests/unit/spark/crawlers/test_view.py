"""What is shown of crawlers."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")
pytest.importorskip("matplotlib", reason="needs the spark extra")

from highwater.spark.crawlers.log import ClientChange
from highwater.spark.crawlers.sessions import Limits
from highwater.spark.crawlers.view import crawls_of, to_view
from highwater.spark.page import document, view
from highwater.spark.stream_page import StreamSoFar
from tests.support import spark_views

LIMITS = Limits(requests=3, within_ms=60_000, gap_ms=600_000)


def change(*, detected: bool, at_s: int, start_s: int, requests: int, client: str = "c"):
    return ClientChange(
        client=client, detected=detected, at_s=at_s, session_start_s=start_s, requests=requests
    )


def test_the_rate_is_that_of_the_session_without_the_gap_that_ended_it():
    begin = change(detected=True, at_s=20, start_s=10, requests=3)
    (crawl,) = crawls_of([begin], LIMITS)
    assert (crawl.per_minute, crawl.detected_s, crawl.over_s) == (18.0, 20, None)
    (crawl,) = crawls_of([change(detected=False, at_s=730, start_s=10, requests=60), begin], LIMITS)
    assert (crawl.seconds, crawl.per_minute) == (120, 30.0)
    assert (crawl.detected_s, crawl.over_s) == (20, 730)


def test_sessions_of_a_client_are_told_apart_and_an_end_alone_is_one():
    changes = [
        change(detected=True, at_s=5, start_s=5, requests=3),
        change(detected=False, at_s=605, start_s=5, requests=3),
        change(detected=True, at_s=9000, start_s=8990, requests=3),
        change(detected=False, at_s=700, start_s=1, requests=8, client="d"),
    ]
    assert [(each.client, each.detected_s, each.over_s) for each in crawls_of(changes, LIMITS)] == [
        ("c", 9000, None),
        ("c", 5, 605),
        ("d", None, 700),
    ]


def test_all_requests_in_one_second_have_a_rate():
    (crawl,) = crawls_of([change(detected=True, at_s=5, start_s=5, requests=3)], LIMITS)
    assert crawl.per_minute == 180


@pytest.mark.slow
def test_a_page_has_clients_and_their_rate_and_keeps_their_names_text():
    page = view.to_page(spark_views.crawlers())
    assert [chart.title for chart in page.charts] == [
        "Detections per minute",
        "Fastest clients, requests a minute",
        "Requests of detected sessions",
    ]
    facts = {fact.label: (fact.value, fact.wrong) for fact in page.facts}
    assert facts["On the list"] == ("1", True)
    assert facts["Detected clients"] == ("3", False)
    rows = page.tables[0].rows
    assert [row[3] for row in rows] == [
        "17 May 2015 12:20:00",
        "17 May 2015 11:20:00",
        "on the list",
    ]
    assert [row[5] for row in rows] == ["90", "90", "120"]
    assert "<script" not in document.render(page)


@pytest.mark.slow
def test_nobody_was_detected():
    page = view.to_page(to_view("t", [], LIMITS, StreamSoFar()))
    assert page.tables[0].rows == []
    assert not any(fact.wrong for fact in page.facts)
