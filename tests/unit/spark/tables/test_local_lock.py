"""One holder at a time for each purpose, and none for tables elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.model.errors import UnwritableDirectoryError
from highwater.spark.tables.local_lock import hold, local_path
from highwater.spark.tables.port import TableConflict


def test_what_is_in_a_file_system_of_this_machine(tmp_path: Path) -> None:
    assert local_path("/a/b c") == Path("/a/b c")
    assert local_path("file:///a/b%20c") == Path("/a/b c")
    assert local_path("hdfs://host/a") is None
    assert local_path("a") == Path("a").absolute()


def test_the_second_holder_is_told(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    with hold(path, "load"):
        with pytest.raises(TableConflict, match="run again"), hold(path, "load"):
            pass
        with hold(path, "commit"):
            pass
    with hold(path, "load"):
        pass


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnwritableDirectoryError, match="file"), hold(f"{tmp_path}/file/t", "load"):
        pass


def test_stores_elsewhere_are_left_alone() -> None:
    with hold("hdfs://host/a", "load"), hold("hdfs://host/a", "load"):
        pass
