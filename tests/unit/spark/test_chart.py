"""The chart: a PNG of the fixed size for every report, never half-written."""

from __future__ import annotations

import dataclasses
import struct
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from highwater.spark.report import HourTraffic, PathTraffic, Report, StatusCount

pytest.importorskip("matplotlib", reason="needs the spark extra")

from highwater.spark import chart

pytestmark = pytest.mark.slow

START = datetime(2015, 5, 17, 10, tzinfo=UTC)
REPORT = Report(
    topic="access_log",
    records=100,
    unparsed=1,
    hours=tuple(
        HourTraffic(start=START + timedelta(hours=i), requests=1 + i % 5, size_bytes=i * 1000)
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
    chart.draw(REPORT, target)
    png = target.read_bytes()
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack_from(">II", png, 16) == (1600, 1125)
    assert len(pixels(png)) > 50, "an empty canvas has hardly any different bytes"
    assert [each.name for each in tmp_path.iterdir()] == ["chart.png"]


def test_equal_reports_give_equal_files(tmp_path: Path) -> None:
    chart.draw(REPORT, tmp_path / "a.png")
    chart.draw(dataclasses.replace(REPORT), tmp_path / "b.png")
    chart.draw(dataclasses.replace(REPORT, unparsed=2), tmp_path / "c.png")
    first = (tmp_path / "a.png").read_bytes()
    assert (tmp_path / "b.png").read_bytes() == first
    assert (tmp_path / "c.png").read_bytes() != first


@pytest.mark.parametrize("hours", [0, 1])
def test_a_nearly_empty_report_is_no_error(tmp_path: Path, hours: int) -> None:
    small = dataclasses.replace(
        REPORT, hours=REPORT.hours[:hours], top_paths=REPORT.top_paths[:hours], status_codes=()
    )
    chart.draw(small, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").stat().st_size > 0
