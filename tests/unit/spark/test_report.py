"""The report as a value and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from highwater.spark.report import (
    HourTraffic,
    PathTraffic,
    Report,
    StatusCount,
    from_json,
    to_document,
    to_json,
)

NOON = datetime(2015, 5, 17, 12, tzinfo=UTC)


def make_report(requests: tuple[int, ...] = (3, 7, 7, 1)) -> Report:
    return Report(
        topic="t",
        records=sum(requests) + 2,
        unparsed=2,
        hours=tuple(
            HourTraffic(
                start=NOON + timedelta(hours=i),
                requests=count,
                size_bytes=count * 10**12,
                client_errors=count // 3,
                server_errors=count // 7,
            )
            for i, count in enumerate(requests)
        ),
        top_paths=(PathTraffic(path='/"ä', requests=5, size_bytes=9),),
        status_codes=(StatusCount(status=200, requests=17), StatusCount(status=404, requests=1)),
    )


def test_totals_are_sums_of_the_hours() -> None:
    report = make_report()
    assert (report.requests, report.size_bytes) == (18, 18 * 10**12)
    assert report.errors == (1 + 2 + 2) + (1 + 1)


def test_the_first_of_equal_hours_is_the_busiest() -> None:
    busiest = make_report().busiest
    assert busiest is not None
    assert busiest.start == NOON + timedelta(hours=1)


def test_an_empty_report() -> None:
    empty = Report(topic="t", records=0, unparsed=0, hours=(), top_paths=(), status_codes=())
    assert (empty.requests, empty.size_bytes, empty.errors, empty.busiest) == (0, 0, 0, None)
    assert from_json(to_json(empty)) == empty


def test_json_round_trip() -> None:
    assert from_json(to_json(make_report())) == make_report()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"topic": "t"}', to_json(make_report()).replace("path", "pith")]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        from_json(text)


def test_a_report_of_a_table() -> None:
    of_all = Report(
        topic="", table="lake/x", records=0, unparsed=0, hours=(), top_paths=(), status_codes=()
    )
    assert from_json(to_json(of_all)) == of_all
    assert of_all.title == "Traffic in table lake/x"
    assert replace(of_all, topic="t").title == "Traffic in table lake/x, topic t"
    assert make_report().title == "Traffic in topic t"


def test_a_report_of_an_earlier_release_is_of_a_topic() -> None:
    document = to_document(make_report())
    del document["table"]
    assert from_json(json.dumps(document)) == make_report()
