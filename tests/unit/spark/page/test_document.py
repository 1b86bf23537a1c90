"""The page: whole by itself, and nothing that a client chose becomes markup."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("jinja2", reason="needs the spark extra")

from highwater.spark.page import document
from highwater.spark.page.document import Chart, Column, Fact, Page, Table

MARKUP = "<script>alert('1')</script>&amp;"


class Reader(HTMLParser):
    """Collects elements, the attributes that name other files, and text."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.references: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.references += [
            value or ""
            for name, value in attrs
            if name in ("src", "href", "data", "action") and not (value or "").startswith("#")
        ]

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.text.append(data.strip())


def read(page: Page) -> Reader:
    reader = Reader()
    reader.feed(document.render(page))
    reader.close()
    return reader


def test_names_stay_text() -> None:
    page = Page(
        title=MARKUP,
        subtitle=MARKUP,
        facts=[Fact(label=MARKUP, value=MARKUP)],
        charts=[Chart(title=MARKUP, svg="<svg></svg>")],
        tables=[Table(title=MARKUP, columns=[Column(name=MARKUP)], rows=[[MARKUP]])],
    )
    reader = read(page)
    assert "script" not in reader.elements
    # The head's title, the headline and its line, a fact's two, a chart's title, a table's three.
    assert reader.text.count(MARKUP) == 9


def test_refers_to_nothing_and_runs_nothing() -> None:
    reader = read(Page(title="t", subtitle="s"))
    assert reader.references == []
    assert not {"script", "link", "img", "iframe"} & set(reader.elements)
    assert "default-src 'none'" in document.render(Page(title="t", subtitle="s"))


def test_charts_are_put_in_as_they_are() -> None:
    text = document.render(
        Page(title="t", subtitle="s", charts=[Chart(title="c", svg='<svg id="one"></svg>')])
    )
    assert '<svg id="one"></svg>' in text


def test_parts_follow_with_their_own_names_as_text() -> None:
    part = Page(title=MARKUP, subtitle="p", facts=[Fact(label="l", value="v")])
    reader = read(Page(title="t", subtitle="s", parts=[part]))
    assert "script" not in reader.elements
    assert reader.text[-4:] == [MARKUP, "p", "l", "v"]


def test_what_is_not_seen_shows() -> None:
    assert "a\N{REPLACEMENT CHARACTER}b" in read(Page(title="a\u202eb", subtitle="s")).text


def test_a_row_of_a_part_that_does_not_fit_is_refused() -> None:
    table = Table(title="Alarms", columns=[], rows=[["a"]])
    with pytest.raises(ValueError, match="Alarms"):
        document.render(
            Page(title="t", subtitle="s", parts=[Page(title="p", subtitle="s", tables=[table])])
        )


def test_a_table_without_rows_says_so() -> None:
    table = Table(title="Alarms", columns=[Column(name="Rule")], rows=[], empty="No alarms.")
    reader = read(Page(title="t", subtitle="s", tables=[table]))
    assert "No alarms." in reader.text
    assert "table" not in reader.elements


def test_a_row_that_does_not_fit_is_refused() -> None:
    table = Table(title="Alarms", columns=[Column(name="Rule")], rows=[["a", "b"]])
    with pytest.raises(ValueError, match="Alarms"):
        document.render(Page(title="t", subtitle="s", tables=[table]))


def test_numbers_stand_on_the_right() -> None:
    columns = [Column(name="Path"), Column(name="Requests", numbers=True)]
    text = document.render(
        Page(title="t", subtitle="s", tables=[Table(title="x", columns=columns, rows=[["/", "5"]])])
    )
    row = ET.fromstring(text[text.index("<tbody>") : text.index("</tbody>") + 8])
    assert [cell.get("class") for cell in row.iter("td")] == [None, "number"]


def test_replaces_what_is_there_and_leaves_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    document.write(Page(title="grüße", subtitle="s"), path)
    assert "grüße" in path.read_text(encoding="utf-8")
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]
