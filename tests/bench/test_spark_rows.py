"""Rows are chosen by patterns, and every kind of row has a section in the document."""

from __future__ import annotations

import pytest

from tests.bench.spark_bench import DEFAULT_ROWS
from tests.bench.spark_rows import ROWS, SECTIONS, Kind, cut_sections, select


def test_patterns_choose_rows_in_their_own_order() -> None:
    names = [row.name for row in select(["load/delta/*", "read/*"])]
    assert names == ["read/plain", "load/delta/plain", "load/delta/lz4"]
    assert select(["*"]) == ROWS
    with pytest.raises(ValueError, match="no row is named like 'lod/"):
        select(["read/*", "lod/*"])


def test_what_the_makefile_runs_exists() -> None:
    assert select(DEFAULT_ROWS.split(",")) == ROWS


def test_a_section_is_written_whole() -> None:
    assert cut_sections(ROWS) == cut_sections(select(["stream/*", "workers/*"])) == ""
    assert cut_sections(select(["load/delta/*", "workers/1", "mirror/*"])) == (
        "Spark's loads, Spark's workers"
    )


def test_every_kind_of_row_has_rows_and_a_section() -> None:
    assert {row.kind for row in ROWS} == set(Kind) == set(SECTIONS)
    assert {row.name.split("/")[0] for row in ROWS} == {str(kind) for kind in Kind}
