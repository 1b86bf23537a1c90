"""The picture: a PNG of the fixed size for every report, never half-written. And the page."""

from __future__ import annotations

import dataclasses
import struct
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from highwater.spark.report import HourTraffic, PathTraffic, Report, StatusCount

pytest.importorskip("matplotlib", reason="needs the spark extra")

from highwater.spark import report_views

pytestmark = pytest.mark.slow

START = datetime(2015, 5, 17, 10, tzinfo=UTC)
REPORT = Report(
    topic="access_log",
    records=100,
    unparsed=1,
    hours=tuple(
        HourTraffic(
            start=START + timedelta(hours=i),
            requests=1 + i % 5,
            size_bytes=i * 1000,
            client_errors=i % 2,
            server_errors=i % 3,
        )
        for i in range(30)
    ),
    top_paths=tuple(
        PathTraffic(path=f"/{'x' * n * 10}$y$", requests=50 - n, size_bytes=n) for n in range(12)
    ),
    status_codes=(StatusCount(status=200, requests=90), StatusCount(status=999, requests=9)),
)


def pixels(png: bytes) -> set[bytes]:
    """The distinct colours of an 8-bit RGBA picture's rows; decodes only the filters used here."""
    at, data = 8, b""
    while at < len(png):
        (size,) = struct.unpack_from(">I", png, at)
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + size]
        at += 12 + size
    return {bytes([byte]) for byte in zlib.decompress(data)}


def test_is_a_png_of_the_promised_size(tmp_path: Path) -> None:
    target = tmp_path / "chart.png"
    report_views.draw_picture(REPORT, target)
    png = target.read_bytes()
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack_from(">II", png, 16) == (1600, 1125)
    assert len(pixels(png)) > 50, "an empty canvas has hardly any different bytes"
    assert [each.name for each in tmp_path.iterdir()] == ["chart.png"]


def test_equal_reports_give_equal_files(tmp_path: Path) -> None:
    report_views.draw_picture(REPORT, tmp_path / "a.png")
    report_views.draw_picture(dataclasses.replace(REPORT), tmp_path / "b.png")
    report_views.draw_picture(dataclasses.replace(REPORT, unparsed=2), tmp_path / "c.png")
    first = (tmp_path / "a.png").read_bytes()
    assert (tmp_path / "b.png").read_bytes() == first
    assert (tmp_path / "c.png").read_bytes() != first


@pytest.mark.parametrize("hours", [0, 1])
def test_a_nearly_empty_report_is_no_error(tmp_path: Path, hours: int) -> None:
    small = dataclasses.replace(
        REPORT, hours=REPORT.hours[:hours], top_paths=REPORT.top_paths[:hours], status_codes=()
    )
    report_views.draw_picture(small, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").stat().st_size > 0


def test_a_path_with_dollar_signs_is_no_formula(tmp_path: Path) -> None:
    path = PathTraffic(path=r"/$\nonsense{$", requests=1, size_bytes=1)
    odd = dataclasses.replace(REPORT, top_paths=(path,))
    report_views.draw_picture(odd, tmp_path / "chart.png")
    assert r"/$\nonsense{$" in report_views.to_page(odd).charts[3].svg


def test_the_page_has_a_chart_for_each_question_and_all_paths() -> None:
    page = report_views.to_page(REPORT)
    assert [chart.title for chart in page.charts] == [
        "Requests per hour",
        "Bytes per hour",
        "Errors per hour",
        "Top paths by requests",
        "Status codes",
    ]
    assert [row[0] for row in page.tables[0].rows] == [each.path for each in REPORT.top_paths]
    facts = {fact.label: fact.value for fact in page.facts}
    assert facts["Requests"] == f"{REPORT.requests}"
    assert facts["Errors"] == f"{15 + 30} ({45 / REPORT.requests:.1%})"


def test_only_records_that_do_not_parse_need_attention() -> None:
    assert [fact.label for fact in report_views.to_page(REPORT).facts if fact.wrong] == [
        "Not in the format"
    ]
    whole = dataclasses.replace(REPORT, unparsed=0)
    assert not any(fact.wrong for fact in report_views.to_page(whole).facts)


def test_equal_reports_give_equal_pages(tmp_path: Path) -> None:
    report_views.write_page(REPORT, tmp_path / "a.html")
    report_views.write_page(dataclasses.replace(REPORT), tmp_path / "b.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_an_empty_report_has_a_page() -> None:
    empty = Report(topic="t", records=0, unparsed=0, hours=(), top_paths=(), status_codes=())
    page = report_views.to_page(empty)
    assert page.subtitle == "No requests."
    assert {fact.label: fact.value for fact in page.facts}["Errors"] == "0 (0.0%)"
