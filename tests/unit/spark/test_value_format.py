"""Formats by name, and their schema files."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from pathlib import Path

from highwater.spark.value_format import FormatName, SchemaUnusable, ValueFormat, value_format


def test_a_schema_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "schema.ddl"
    file.write_text("a int\n")
    assert value_format("csv", file) == ValueFormat(name=FormatName.CSV, schema="a int")


def test_formats_without_a_schema() -> None:
    assert value_format("raw").always_fits
    assert not value_format("text").always_fits


@pytest.mark.parametrize("name", ["json", "csv", "avro"])
def test_a_schema_is_needed(name: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaUnusable, match="needs a schema"):
        value_format(name)
    with pytest.raises(SchemaUnusable, match="cannot read"):
        value_format(name, tmp_path / "none")
    (tmp_path / "empty").touch()
    with pytest.raises(SchemaUnusable, match="empty"):
        value_format(name, tmp_path / "empty")


def test_a_schema_that_nobody_reads(tmp_path: Path) -> None:
    with pytest.raises(SchemaUnusable, match="leave out"):
        value_format("raw", tmp_path / "schema")
