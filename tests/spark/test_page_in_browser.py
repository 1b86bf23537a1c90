"""The jobs' pages in a real browser: they are drawn, with all their parts, and nothing in them runs."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")
pytest.importorskip("matplotlib", reason="needs the spark extra")

from PIL import Image

from highwater.spark import report_views
from highwater.spark.page import charts, view
from highwater.spark.page.labels import visible
from tests.support import spark_views
from tests.support.browser import read_document, screenshot
from tools.demo.checks import count_file
from tools.demo.options import SAMPLE_LOG

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(200)]

WIDTH, HEIGHT = 1280, 2400
NEAR = 12
"""How far a colour may be from the one that was asked for, in each channel."""


PIXELS = 12
"""Fewer than a bar is wide, of 48 on the width of a page."""
ROWS = 25
"""More than a line of coloured text is high."""


def rows_with(picture: Any, colour: str) -> Any:
    """The numbers of the picture's rows that have at least PIXELS of this colour."""
    wanted = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)])
    near = (np.abs(picture.astype(int) - wanted) <= NEAR).all(axis=2)
    return np.flatnonzero(near.sum(axis=1) >= PIXELS)


def drawn(page: Path, tmp_path: Path) -> Any:
    """The pixels of the page as the browser draws it."""
    screenshot(page, tmp_path / "page.png", width=WIDTH, height=HEIGHT)
    pixels = np.asarray(Image.open(tmp_path / "page.png").convert("RGB"))
    assert pixels.shape == (HEIGHT, WIDTH, 3)
    return pixels


def test_the_report_of_the_sample_log_is_drawn(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    report = count_file(SAMPLE_LOG.read_bytes().splitlines(), "access_log", top_paths=20)
    report_views.write_page(report, page)

    pixels = drawn(page, tmp_path)
    requests = rows_with(pixels, charts.BLUE)
    size, errors = rows_with(pixels, charts.GREEN), rows_with(pixels, charts.ORANGE)
    paths = rows_with(pixels, charts.VIOLET)
    for rows in (requests, size, errors, paths):
        assert len(rows) > ROWS, "a chart's bars are not there"
    assert requests.min() < size.min() < errors.min() < paths.min()

    document = read_document(page, tmp_path)
    assert document.count("<svg") == 5
    assert "/favicon.ico" in document
    assert "9,126" in document, "requests with status 200"


@pytest.mark.parametrize(
    ("job", "colours", "parts"),
    [
        (
            "watch",
            (charts.BLUE, charts.RED, charts.VIOLET),
            [
                "Requests per minute",
                "Error rate by minute",
                "Latency by minute",
                "Alarms",
                "sounds",
            ],
        ),
        pytest.param(
            "load",
            (charts.BLUE, charts.GREEN, charts.ORANGE, charts.RED),
            ["Rows per hour", "Values in quarantine per hour", "Lag by partition", "orders-0"],
            marks=pytest.mark.full,
        ),
        pytest.param(
            "audit",
            (charts.GREEN, charts.RED),
            ["Records compared per hour", "Hours that differ", "missing", "altered"],
            marks=pytest.mark.full,
        ),
        pytest.param(
            "mirror",
            (charts.BLUE, charts.GREEN, charts.ORANGE),
            ["Rows copied per minute", "Rows/s by topic", "Lag by topic", "east/orders"],
            marks=pytest.mark.full,
        ),
        pytest.param(
            "ranking",
            (charts.BLUE, charts.ORANGE, charts.VIOLET),
            ["first items, by window", "Newest closed window", "First of each window", "/blog/"],
            marks=pytest.mark.full,
        ),
        pytest.param(
            "crawlers",
            (charts.RED, charts.ORANGE, charts.VIOLET),
            ["Detections per minute", "requests a minute", "Detected sessions", "on the list"],
            marks=pytest.mark.full,
        ),
    ],
)
def test_a_page_is_drawn_with_its_parts_and_names_stay_text(
    job: str, colours: tuple[str, ...], parts: list[str], tmp_path: Path
) -> None:
    page = tmp_path / f"{job}.html"
    made = getattr(spark_views, job)()
    view.write_page(made, page)

    pixels = drawn(page, tmp_path)
    for colour in colours:
        assert len(rows_with(pixels, colour)) > ROWS, f"nothing is drawn in {colour}"
    document = read_document(page, tmp_path)
    assert document.count("<svg") == len(made.drawings)
    for part in parts:
        assert part in document
    assert "<script" not in document
    assert f"<title>{escape(visible(made.title), quote=False)}</title>" in document
    client, path = spark_views.client_and_path()
    name = client if job == "crawlers" else path
    assert escape(visible(name), quote=False) in document
