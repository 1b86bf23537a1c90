"""Every table format through the port: whole commits, once each, with the writer's version and note."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.tables import Committed, Table, TableFormat, open_table
from highwater.spark.tables.local_lock import hold
from highwater.spark.tables.port import (
    CommitNoteGone,
    ReplaceRefused,
    TableConflict,
    TableMisfit,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "topic string, partition int, offset bigint"
FORMATS = [
    TableFormat.DELTA,
    pytest.param(TableFormat.ICEBERG, marks=pytest.mark.full),
    pytest.param(TableFormat.PARQUET, marks=pytest.mark.full),
]


def rows(spark: SparkSession, *offsets: int, topic: str = "7") -> DataFrame:
    return spark.createDataFrame([(topic, 0, offset) for offset in offsets], SCHEMA)


def offsets(table: Table) -> list[int]:
    return sorted(row["offset"] for row in table.read().collect())


def make(spark: SparkSession, table_format: str, path: Path) -> Table:
    return open_table(spark, table_format, str(path / "table"), partition_by=["topic", "partition"])


@pytest.mark.parametrize("table_format", TableFormat)
def test_a_version_is_committed_once_with_its_note(
    spark: SparkSession, tmp_path: Path, table_format: str
) -> None:
    table = make(spark, table_format, tmp_path)
    assert (table.exists(), table.committed("load")) == (False, None)
    assert table.commit(rows(spark, 1, 2), writer="load", version=0, note="a")
    again = make(spark, table_format, tmp_path)
    assert not again.commit(rows(spark, 1, 2), writer="load", version=0, note="b")
    assert again.commit(rows(spark, 3), writer="load", version=4, note='{"c": "d"}')
    assert not again.commit(rows(spark, 9), writer="load", version=3, note="late")
    assert offsets(table) == [1, 2, 3]
    assert table.committed("load") == Committed(version=4, note='{"c": "d"}')
    # The topic's name keeps its type, though it is a number.
    assert {row["topic"] for row in table.read().collect()} == {"7"}


@pytest.mark.parametrize("table_format", FORMATS)
def test_writers_count_for_themselves_and_commits_may_be_empty(
    spark: SparkSession, tmp_path: Path, table_format: str
) -> None:
    table = make(spark, table_format, tmp_path)
    assert table.commit(rows(spark), writer="a.b", version=7, note="none")
    assert table.exists()
    assert offsets(table) == []
    assert table.commit(rows(spark, 5), writer="a", version=0, note="one")
    assert table.committed("a.b") == Committed(version=7, note="none")
    assert table.committed("a") == Committed(version=0, note="one")
    assert offsets(table) == [5]


@pytest.mark.full
@pytest.mark.parametrize("table_format", [TableFormat.DELTA, TableFormat.ICEBERG])
def test_rows_are_replaced_in_the_same_commit(
    spark: SparkSession, tmp_path: Path, table_format: str
) -> None:
    table = make(spark, table_format, tmp_path)
    assert table.commit(rows(spark, 1, 2, 3), writer="w", version=0, note="")
    assert table.commit(rows(spark, 8, topic="other"), writer="w", version=1, note="")
    where = "topic = '7' AND offset >= 2"
    assert table.commit(rows(spark, 2, 4), writer="w", version=2, note="new", replace=where)
    assert offsets(table) == [1, 2, 4, 8]
    assert not table.commit(rows(spark, 5), writer="w", version=2, note="", replace=where)
    assert offsets(table) == [1, 2, 4, 8]


def test_plain_parquet_replaces_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, TableFormat.PARQUET, tmp_path)
    with pytest.raises(ReplaceRefused, match="Delta"):
        table.commit(rows(spark, 1), writer="w", version=0, note="", replace="offset = 1")
    assert not table.exists()


@pytest.mark.parametrize("table_format", FORMATS)
def test_rows_with_other_columns_do_not_fit(
    spark: SparkSession, tmp_path: Path, table_format: str
) -> None:
    table = make(spark, table_format, tmp_path)
    table.commit(rows(spark, 1), writer="w", version=0, note="")
    wider = rows(spark, 2).selectExpr("*", "'x' AS more")
    with pytest.raises(TableMisfit) as caught:
        table.commit(wider, writer="w", version=1, note="")
    assert "\n" not in str(caught.value)
    assert offsets(table) == [1]
    assert table.commit(rows(spark, 2), writer="w", version=1, note="")


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_second_writer_at_the_same_time_is_told(
    spark: SparkSession, tmp_path: Path, table_format: str
) -> None:
    table = make(spark, table_format, tmp_path)
    with hold(str(tmp_path / "table"), "commit"), pytest.raises(TableConflict, match="another"):
        table.commit(rows(spark, 1), writer="w", version=0, note="")
    assert table.commit(rows(spark, 1), writer="w", version=0, note="")


@pytest.mark.full
@pytest.mark.parametrize("table_format", TableFormat)
@pytest.mark.parametrize("same", [True, False], ids=["same-version", "other-writer"])
def test_of_two_commits_without_a_lock_one_wins(
    spark: SparkSession,
    tmp_path: Path,
    table_format: str,
    same: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a file system that locks nothing: one commits while the other one's rows are written."""
    from contextlib import nullcontext

    from highwater.spark.tables import delta, iceberg, parquet

    for module in (delta, iceberg, parquet):
        monkeypatch.setattr(module, "hold", lambda *_: nullcontext())
    first, second = (make(spark, table_format, tmp_path) for _ in range(2))
    first.commit(rows(spark, 0), writer="w", version=0, note="")
    writer = "w" if same else "v"

    seen = second.committed

    def overtaken(name: str) -> Committed | None:
        found = seen(name)
        if first.committed(writer) != Committed(version=1, note="winner"):
            assert first.commit(rows(spark, 1), writer=writer, version=1, note="winner")
        return found

    monkeypatch.setattr(second, "committed", overtaken)
    done = second.commit(rows(spark, 2), writer="w", version=1, note="loser")
    assert done is not same
    assert offsets(first) == [0, 1] if same else [0, 1, 2]
    assert first.committed(writer) == Committed(version=1, note="winner")


@pytest.mark.full
def test_a_note_that_deltas_log_no_longer_has(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, TableFormat.DELTA, tmp_path)
    table.commit(rows(spark, 1), writer="w", version=3, note="")
    # Delta writes a checkpoint with every tenth commit.
    for version in range(10):
        table.commit(rows(spark), writer="v", version=version, note=str(version))
    (tmp_path / "table" / "_delta_log" / f"{0:020}.json").unlink()
    with pytest.raises(CommitNoteGone, match="version 3 of w"):
        table.committed("w")
    assert table.committed("v") == Committed(version=9, note="9")
    assert table.committed("nobody") is None


@pytest.mark.full
def test_leftovers_of_killed_attempts_are_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    from highwater.spark.tables.parquet import STAGING, directory_of

    table = make(spark, TableFormat.PARQUET, tmp_path)
    table.commit(rows(spark, 1), writer="w", version=0, note="")
    left = tmp_path / "table" / STAGING / f"{directory_of('w', 1)}.dead"
    rows(spark, 2).write.parquet(str(left))
    assert offsets(table) == [1]
    assert table.commit(rows(spark, 2), writer="w", version=1, note="")
    assert offsets(table) == [1, 2]
    assert not left.exists()
