"""The report's page in a real browser: it is drawn, with all its parts, in their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="needs the spark extra")

from PIL import Image

from highwater.spark import report_views
from highwater.spark.page import charts
from tests.support.browser import read_document, screenshot
from tools.demo.checks import count_file
from tools.demo.options import SAMPLE_LOG

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(200)]

WIDTH, HEIGHT = 1280, 2400
NEAR = 12
"""How far a colour may be from the one that was asked for, in each channel."""


def rows_with(picture: Any, colour: str) -> Any:
    """The numbers of the picture's rows that have at least 20 pixels of this colour."""
    wanted = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)])
    near = (np.abs(picture.astype(int) - wanted) <= NEAR).all(axis=2)
    return np.flatnonzero(near.sum(axis=1) >= 20)


def test_the_report_of_the_sample_log_is_drawn(tmp_path: Path) -> None:
    page, picture = tmp_path / "report.html", tmp_path / "page.png"
    report = count_file(SAMPLE_LOG.read_bytes().splitlines(), "access_log", top_paths=20)
    report_views.write_page(report, page)

    screenshot(page, picture, width=WIDTH, height=HEIGHT)
    pixels = np.asarray(Image.open(picture).convert("RGB"))
    assert pixels.shape == (HEIGHT, WIDTH, 3)
    requests = rows_with(pixels, charts.BLUE)
    size, errors = rows_with(pixels, charts.GREEN), rows_with(pixels, charts.ORANGE)
    paths = rows_with(pixels, charts.VIOLET)
    for rows in (requests, size, errors, paths):
        assert len(rows) > 20, "a chart's bars are not there"
    assert requests.min() < size.min() < errors.min() < paths.min()

    document = read_document(page, tmp_path)
    assert document.count("<svg") == 5
    assert "/favicon.ico" in document
    assert "9,126" in document, "requests with status 200"
