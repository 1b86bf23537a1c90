"""Of which format the table in a directory is, by its files."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.tables.formats import TableFormat, found_in, refuse_others
from highwater.spark.tables.port import TableMisfit

SIGNS = {
    TableFormat.DELTA: {"": ["_delta_log"], "_delta_log": [f"{7:020}.json"]},
    TableFormat.ICEBERG: {"": ["metadata"], "metadata": ["version-hint.text"]},
    TableFormat.PARQUET: {"": ["commit=load.00000000000000000000"]},
}


class FakeFiles:
    """Names in directories."""

    def __init__(self, names: dict[str, list[str]]) -> None:
        self._names = names

    def names(self, directory: str = "") -> list[str]:
        return self._names.get(directory, [])


@pytest.mark.parametrize("there", TableFormat)
@pytest.mark.parametrize("ours", TableFormat)
def test_a_table_of_another_format_is_refused(there: TableFormat, ours: TableFormat) -> None:
    files = FakeFiles(SIGNS[there])
    assert found_in(files) == {there}
    if there is ours:
        refuse_others(files, "/t", ours)
        return
    with pytest.raises(TableMisfit, match=f"/t is a table of the format {there}, not of {ours}"):
        refuse_others(files, "/t", ours)


@pytest.mark.parametrize("name", ["00000-a-b.metadata.json", "v3.gz.metadata.json"])
def test_an_iceberg_table_of_another_catalog_has_no_version_hint(name: str) -> None:
    assert found_in(FakeFiles({"metadata": [name]})) == {TableFormat.ICEBERG}


def test_of_two_formats_ours_is_the_table() -> None:
    files = FakeFiles(SIGNS[TableFormat.DELTA] | SIGNS[TableFormat.ICEBERG])
    refuse_others(files, "/t", TableFormat.DELTA)
    with pytest.raises(TableMisfit, match="of the format delta and iceberg, not of parquet"):
        refuse_others(files, "/t", TableFormat.PARQUET)


@pytest.mark.parametrize("ours", TableFormat)
def test_what_a_killed_first_commit_left_is_no_table(ours: TableFormat) -> None:
    names = {
        "": ["_delta_log", "_lock.commit", "_staging", "metadata", "part-0.parquet"],
        "_delta_log": [f".{0:020}.json.crc", "_last_checkpoint"],
        "metadata": ["snap-1.avro"],
    }
    refuse_others(FakeFiles(names), "/t", ours)
