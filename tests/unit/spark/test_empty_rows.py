"""No rows, and no Python worker to make them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from pyspark.sql.types import LongType, StringType, StructField, StructType

from highwater.spark import empty_rows


def test_columns_have_their_names_and_types(monkeypatch: pytest.MonkeyPatch) -> None:
    class Null:
        def cast(self, kind: object) -> Null:
            self.kind = kind
            return self

        def alias(self, name: str) -> tuple[str, object]:
            return name, self.kind

    monkeypatch.setattr(empty_rows.f, "lit", lambda value: Null())
    rows = SimpleNamespace(select=lambda *columns: columns)
    spark = SimpleNamespace(range=lambda count: rows if count == 0 else None)
    columns = StructType([StructField("a", LongType(), False), StructField("b", StringType())])
    assert empty_rows.empty_rows(spark, columns) == (("a", LongType()), ("b", StringType()))
