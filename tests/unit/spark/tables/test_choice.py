"""Formats by name."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.tables import TableFormat, open_table
from highwater.spark.tables.port import TableMisfit


def test_an_unknown_format_is_refused() -> None:
    assert [str(each) for each in TableFormat] == ["delta", "iceberg", "parquet"]
    with pytest.raises(ValueError, match="orc"):
        open_table(None, "orc", "/x")


@pytest.mark.parametrize("path", ["s3a://b/t", "GS://b/t", "abfss://c@a/t"])
@pytest.mark.parametrize("table_format", ["parquet", "iceberg"])
def test_object_stores_are_for_delta_alone(path: str, table_format: str) -> None:
    with pytest.raises(TableMisfit, match="a rename is not atomic"):
        open_table(None, table_format, path)
