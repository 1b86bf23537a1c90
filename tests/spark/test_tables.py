"""Every table format through the port: whole commits, once each, with the writer's version and note."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

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
from tests.support.process import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FORMATS = [
    TableFormat.DELTA,
    pytest.param(TableFormat.ICEBERG, marks=pytest.mark.full),
    pytest.param(TableFormat.PARQUET, marks=pytest.mark.full),
]


OVERLAP_S: Final = 120.0


def rows(spark: SparkSession, *offsets: int, topic: str = "7") -> DataFrame:
    """Made by Spark alone: rows of a Python list would need a Python worker."""
    found = spark.range(0)
    for offset in offsets:
        found = found.unionAll(spark.range(offset, offset + 1))
    return found.selectExpr(f"'{topic}' AS topic", "0 AS partition", "id AS offset")


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


def held_up(spark: SparkSession, offset: int, began: Path, go_on: Path) -> DataFrame:
    """One row whose task says that it has begun, and waits until it may go on."""
    from pyspark.sql import functions as f

    # Strings: Python's workers get the function by value, without this module.
    began_path, go_on_path, limit_s = str(began), str(go_on), OVERLAP_S

    def wait(value: int) -> int:
        import time
        from pathlib import Path

        Path(began_path).touch()
        deadline = time.monotonic() + limit_s
        while not Path(go_on_path).exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return value

    waiting = f.udf(wait, "long")
    return rows(spark, offset).withColumn("offset", waiting("offset"))


def overtake(
    tmp_path: Path,
    second: Table,
    slow: SparkSession,
    winner: Callable[[], bool],
    replace: str | None = None,
) -> bool:
    """Commits version 1 of `w` with row 2, during whose tasks `winner` commits; returns what the slow one does."""
    began, go_on = tmp_path / "began", tmp_path / "go-on"
    waiting = held_up(slow, 2, began, go_on)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(
            second.commit, waiting, writer="w", version=1, note="slow", replace=replace
        )
        try:
            wait_until(
                lambda: began.exists() or done.done(),
                timeout_s=OVERLAP_S,
                what="a task that has begun",
            )
            assert not done.done(), done.result()
            assert winner()
        finally:
            go_on.touch()
        return bool(done.result(OVERLAP_S))


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
    # Sessions of their own, as two processes have: Iceberg keeps the commit under way in a setting.
    slow = spark.newSession()
    first, second = make(spark, table_format, tmp_path), make(slow, table_format, tmp_path)
    first.commit(rows(spark, 0), writer="w", version=0, note="")
    writer = "w" if same else "v"

    def winner() -> bool:
        return first.commit(rows(spark, 1), writer=writer, version=1, note="winner")

    # Delta looks at the versions of writers itself. A commit that is overtaken comes second, or is not needed.
    if table_format is TableFormat.DELTA and same:
        with pytest.raises(TableConflict, match="run again"):
            overtake(tmp_path, second, slow, winner)
        is_in = False
    else:
        is_in = overtake(tmp_path, second, slow, winner)
        assert is_in is not same
    assert offsets(first) == ([0, 1, 2] if is_in else [0, 1])
    assert first.committed(writer) == Committed(version=1, note="winner")
    # What lost is committed by another attempt, if its version is not taken.
    assert second.commit(rows(slow, 2), writer="w", version=2, note="again")
    assert offsets(first)[:3] == [0, 1, 2]


@pytest.mark.full
@pytest.mark.parametrize("table_format", [TableFormat.DELTA, TableFormat.ICEBERG])
def test_rows_that_come_while_others_are_replaced_are_not_replaced(
    spark: SparkSession, tmp_path: Path, table_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from contextlib import nullcontext

    from highwater.spark.tables import delta, iceberg

    for module in (delta, iceberg):
        monkeypatch.setattr(module, "hold", lambda *_: nullcontext())
    slow = spark.newSession()
    first, second = make(spark, table_format, tmp_path), make(slow, table_format, tmp_path)
    first.commit(rows(spark, 0, 2), writer="w", version=0, note="")

    def winner() -> bool:
        return first.commit(rows(spark, 1), writer="v", version=0, note="winner")

    with pytest.raises(TableConflict, match="run again"):
        overtake(tmp_path, second, slow, winner, "offset >= 2")
    assert offsets(first) == [0, 1, 2]


@pytest.mark.full
def test_parquet_where_nothing_locks_leaves_a_living_attempt_its_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A path that Hadoop maps to this machine's disk, and that is none of it to us, as HDFS is."""
    from highwater.spark.java_gateway import hadoop_configuration
    from highwater.spark.tables.local_lock import local_path

    there = tmp_path / "there"
    there.mkdir()
    hadoop_configuration(spark).set("fs.viewfs.mounttable.far.link./lake", there.as_uri())
    path = "viewfs://far/lake/table"
    assert local_path(path) is None
    slow = spark.newSession()
    first, second = (
        open_table(session, TableFormat.PARQUET, path, partition_by=["topic", "partition"])
        for session in (spark, slow)
    )
    assert first.commit(rows(spark, 0), writer="w", version=0, note="")

    def same_version() -> bool:
        return first.commit(rows(spark, 1), writer="w", version=1, note="winner")

    assert not overtake(tmp_path, second, slow, same_version)
    assert offsets(first) == [0, 1]
    for each in ("began", "go-on"):
        (tmp_path / each).unlink()
    left = there / "table" / "_staging" / "commit=w.00000000000000000002.dead"
    left.mkdir(parents=True)

    def next_version() -> bool:
        # The other one's files are there while it lives; of version 2 nobody knows.
        return left.is_dir() and first.commit(rows(spark, 3), writer="w", version=2, note="")

    # The slow one commits version 1 again, which is refused before it writes.
    assert not second.commit(rows(slow, 2), writer="w", version=1, note="")
    assert next_version()
    assert left.is_dir()
    assert first.commit(rows(spark, 4), writer="w", version=3, note="")
    assert not left.exists()
    assert offsets(second) == [0, 1, 3, 4]


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_snapshot_is_one_version_whatever_comes_after_it(
    spark: SparkSession, tmp_path: Path, table_format: str
) -> None:
    table = make(spark, table_format, tmp_path)
    assert table.snapshot("w") is None
    table.commit(rows(spark), writer="w", version=0, note="none")
    empty = table.snapshot("w")
    assert empty is not None
    assert (empty.committed.note, empty.rows.count()) == ("none", 0)
    table.commit(rows(spark, 1, 2), writer="w", version=1, note="two")
    table.commit(rows(spark, 3), writer="v", version=0, note="")
    seen = table.snapshot("w")
    assert seen is not None
    table.commit(rows(spark, 4), writer="w", version=2, note="later")
    assert seen.committed == Committed(version=1, note="two")
    assert sorted(row["offset"] for row in seen.rows.collect()) == [1, 2, 3]
    assert {row["topic"] for row in seen.rows.collect()} == {"7"}
    assert seen.rows.columns == table.read().columns


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


def test_a_table_of_another_format_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    for there in TableFormat:
        place = tmp_path / there
        others = [each for each in TableFormat if each != there]
        # Opened before there is any table.
        before = [make(spark, each, place) for each in others]
        table = make(spark, there, place)
        table.commit(rows(spark, 1), writer="w", version=0, note="")
        for other, opened in zip(others, before, strict=True):
            told = f"is a table of the format {there}, not of {other}"
            with pytest.raises(TableMisfit, match=told):
                opened.commit(rows(spark, 1), writer="w", version=0, note="")
            with pytest.raises(TableMisfit, match=told):
                make(spark, other, place)
        assert offsets(make(spark, there, place)) == [1]
