"""The names of commits' directories."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.tables.parquet import directory_of, last_of


def test_the_last_commit_of_a_writer_and_of_nobody_else() -> None:
    names = [
        directory_of("a", 9),
        directory_of("a", 10),
        directory_of("a.b", 11),
        directory_of("a/b", 12),
        "_staging",
    ]
    assert last_of(names, "a") == "commit=a.00000000000000000010"
    assert last_of(names, "a.b") == "commit=a%2Eb.00000000000000000011"
    assert last_of(names, "a/b") == "commit=a%2Fb.00000000000000000012"
    assert last_of(names, "b") is None
