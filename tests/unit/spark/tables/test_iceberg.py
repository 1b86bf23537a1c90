"""Catalogs for paths."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.tables.iceberg import catalog_of
from highwater.spark.tables.port import TableMisfit


def test_the_warehouse_is_the_directory_above() -> None:
    name, settings, table = catalog_of("/lake/events-1")
    assert settings[f"spark.sql.catalog.{name}.warehouse"] == "/lake"
    assert table == f"{name}.`events-1`"
    assert catalog_of("/lake/other")[0] == name


def test_two_directories_are_two_catalogs() -> None:
    assert catalog_of("/lake/a")[0] != catalog_of("/pond/a")[0]
    _, settings, _ = catalog_of("hdfs://host/lake/a")
    assert "hdfs://host/lake" in settings.values()


@pytest.mark.parametrize("path", ["/", "hdfs://host"])
def test_a_table_needs_a_directory_above(path: str) -> None:
    with pytest.raises(TableMisfit, match="above"):
        catalog_of(path)
