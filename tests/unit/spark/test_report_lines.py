"""Which tables a report can read; tests/spark reads them."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    StructField,
    StructType,
    TimestampType,
)

from highwater.spark import report_lines as module
from highwater.spark.report_lines import TableSource, read_lines
from highwater.spark.tables.port import TableMisfit

SOURCE = TableSource(table="lake/x", table_format="delta", quarantine="lake/x_quarantine")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("key", BinaryType()),
        ("value", IntegerType()),
        ("value", StructType([StructField("time", TimestampType())])),
    ],
)
def test_a_table_without_lines(name: str, kind: DataType, monkeypatch: pytest.MonkeyPatch):
    table, kind = MagicMock(), StructType([StructField(name, kind)])
    table.read().schema, table.read().columns = kind, kind.names
    monkeypatch.setattr(module, "open_table", lambda *_: table)
    with pytest.raises(TableMisfit, match="lake/x has no log lines; load it with"):
        read_lines(MagicMock(), SOURCE)
