"""Formats by name."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.tables import TableFormat, open_table


def test_an_unknown_format_is_refused() -> None:
    assert [str(each) for each in TableFormat] == ["delta", "iceberg", "parquet"]
    with pytest.raises(ValueError, match="orc"):
        open_table(None, "orc", "/x")
