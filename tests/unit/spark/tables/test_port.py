"""Who can do something about an error of a table."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.ending import EXIT_LATER, exit_code
from highwater.spark.tables.port import CommitNoteGone, ReplaceRefused, TableConflict, TableMisfit


def test_a_conflict_passes_and_the_others_are_for_the_operator() -> None:
    assert exit_code(TableConflict("x")) == EXIT_LATER
    assert {exit_code(kind("x")) for kind in (CommitNoteGone, ReplaceRefused, TableMisfit)} == {2}
