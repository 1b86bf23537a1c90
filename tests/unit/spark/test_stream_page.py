"""What a stream has told, and when its page is drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")
pytest.importorskip("matplotlib", reason="needs the spark extra")

from highwater.spark.page.files import PageFiles
from highwater.spark.page.view import View
from highwater.spark.stream_page import BATCHES_MAX, REDRAW_S, StreamPage, StreamSoFar
from highwater.spark.stream_progress import StreamProgress

PROGRESS = StreamProgress(
    batch=0, records=1000, records_per_s=250.5, offsets={0: 10}, lag=7, late_rows=2, unparsed=5, ahead=3, newest_s=9,
    state_rows=7, watermark="2015-05-17T10:00:00.000Z",
)  # fmt: skip


class Watched:
    """A page with a clock that only moves when told; counts how often it was drawn."""

    def __init__(self, path: Path | None) -> None:
        self.now = 0.0
        self.drawn = 0
        self.error: Exception | None = None
        self.page = StreamPage(PageFiles(html=path), self._view, now=lambda: self.now)

    def _view(self, so_far: StreamSoFar) -> View:
        if self.error is not None:
            raise self.error
        self.drawn += 1
        return View(title=f"{so_far.records} records", subtitle="s", facts=so_far.facts())


def test_batches_add_up():
    so_far = StreamSoFar()
    for number in range(BATCHES_MAX + 3):
        so_far.add(replace(PROGRESS, batch=number, lag=number))
    facts = {fact.label: (fact.value, fact.wrong) for fact in so_far.facts()}
    assert facts == {
        "Records read by this run": ("23,000", False),
        "Late, left out": ("46", True),
        "Not in the format": ("115", True),
        "Ahead of the log's clock": ("69", True),
        "Lag, records": ("22", False),
    }
    rows = so_far.table().rows
    assert [row[0] for row in rows] == [str(number) for number in range(22, 2, -1)]
    assert rows[0][1:] == ("1,000", "250", "22", "2", "5", "3", "2015-05-17T10:00:00.000Z")


def test_a_stream_that_told_nothing_has_facts():
    assert [fact.value for fact in StreamSoFar().facts()] == ["0"] * 5
    assert not StreamSoFar().table().rows


def test_drawn_after_the_first_batch_then_once_a_minute_and_at_the_end(tmp_path: Path):
    watched = Watched(tmp_path / "page.html")
    watched.page.look()
    assert watched.drawn == 0, "nothing is new yet"
    watched.page.told(PROGRESS)
    watched.page.told(replace(PROGRESS, batch=1))
    assert watched.drawn == 1
    watched.now = REDRAW_S
    watched.page.look()
    watched.page.look()
    assert watched.drawn == 2
    watched.now += REDRAW_S
    watched.page.look()
    assert watched.drawn == 2, "nothing is new"
    watched.page.changed()
    watched.page.look()
    assert watched.drawn == 3
    watched.page.end()
    assert watched.drawn == 3
    watched.page.told(replace(PROGRESS, batch=2))
    watched.page.end()
    assert watched.drawn == 4
    assert "3000 records" in (tmp_path / "page.html").read_text()


def test_a_stream_without_a_batch_has_a_page_in_the_end(tmp_path: Path):
    watched = Watched(tmp_path / "page.html")
    watched.page.end()
    assert "0 records" in (tmp_path / "page.html").read_text()


def test_nothing_is_read_for_a_page_that_nobody_wants():
    watched = Watched(None)
    watched.page.told(PROGRESS)
    watched.page.end()
    assert watched.drawn == 0


def test_a_page_that_fails_is_told_and_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    watched = Watched(tmp_path / "page.html")
    watched.error = OSError("disk full")
    watched.page.told(PROGRESS)
    assert capsys.readouterr().err == "highwater-spark: no page was written: disk full\n"
    watched.error = None
    watched.now = REDRAW_S
    watched.page.told(replace(PROGRESS, batch=1))
    assert watched.drawn == 1
