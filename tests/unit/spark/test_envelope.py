"""The columns of both tables."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.envelope import COLUMNS, PARTITION_BY, QUARANTINE_COLUMNS


def test_rows_to_replace_are_named_by_columns_of_both_tables() -> None:
    """The predicate of a load holds in the quarantine, too; see `load_plan`."""
    for columns in (COLUMNS, QUARANTINE_COLUMNS):
        assert {"topic", "topic_id", "partition", "offset"} <= set(columns)
        assert set(PARTITION_BY) <= set(columns)
        assert len(set(columns)) == len(columns)


def test_only_the_quarantine_has_errors() -> None:
    assert set(QUARANTINE_COLUMNS) - set(COLUMNS) == {"error"}
