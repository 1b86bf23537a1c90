from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import control_plane, failover, nodes, restart, tenants
from tests.bench.__main__ import GROUP_KINDS
from tests.bench.document import (
    DOCUMENT,
    Section,
    markdown_table,
    with_limit,
    with_target,
    write_section,
)
from tests.bench.spark_rows import SECTIONS as SPARK_SECTIONS

SECTIONS = (
    *(kind.section for kind in GROUP_KINDS),
    failover.SECTION,
    restart.SECTION,
    nodes.SECTION,
    control_plane.SECTION,
    tenants.SECTION,
    *SPARK_SECTIONS.values(),
)


def test_a_section_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    one, two = Section(name="results", target="a"), Section(name="results of two", target="b")
    path.write_text(f"head\n{one.begin}\nold\n{one.end}\nmid\n{two.begin}\nkept\n{two.end}\nfoot\n")
    write_section(path, one, "new\n")
    assert path.read_text() == (
        f"head\n{one.begin}\n\nnew\n\n{one.end}\nmid\n{two.begin}\nkept\n{two.end}\nfoot\n"
    )
    write_section(path, two, "newer\n")
    assert "newer" in path.read_text()
    assert "new\n\n" in path.read_text()


def test_a_page_without_marks_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("nothing")
    with pytest.raises(ValueError, match="lacks the marks"):
        write_section(path, Section(name="results", target="bench"), "new")
    assert path.read_text() == "nothing"


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_the_page_has_a_place_for_every_section(section: Section, tmp_path: Path) -> None:
    copy = tmp_path / "copy.md"
    copy.write_text(DOCUMENT.read_text())
    write_section(copy, section, "something new\n")
    assert copy.read_text().count("something new") == 1
    assert copy.read_text().count("<!-- end of") == len(SECTIONS)


def test_tables_and_limits() -> None:
    assert markdown_table(["a", "b"], [["1", "2"]]) == ["| a | b |", "|---|---:|", "| 1 | 2 |"]
    assert markdown_table(["a"], []) == []
    assert with_limit(1.234, None, ".1f") == "1.2"
    assert with_limit(1.0, 2.0, ".1f") == "1.0 (< 2: reached)"
    assert with_limit(2.0, 2.0, ".1f") == "2.0 (< 2: missed)"
    assert with_target(0.954, None) == "0.95"
    assert with_target(0.954, 0.95) == "0.95 (>= 0.95: reached)"
    assert with_target(0.944, 0.95) == "0.94 (>= 0.95: missed)"
    assert with_target(1.0, 0.9, at_most=True) == "1.00 (<= 0.9: missed)"
    assert with_target(0.85, 0.9, at_most=True) == "0.85 (<= 0.9: reached)"
