"""The one rename by which a commit appears, in a file system of this machine."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from highwater.model.errors import UnwritableDirectoryError
from highwater.spark.tables.hadoop_files import HadoopFiles


@pytest.fixture
def files(tmp_path: Path) -> HadoopFiles:
    def path(name: str) -> Any:
        return SimpleNamespace(getFileSystem=lambda conf: None)

    hadoop = SimpleNamespace(fs=SimpleNamespace(Path=path))
    jvm = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hadoop=hadoop)))
    context = SimpleNamespace(_jvm=jvm, _jsc=SimpleNamespace(hadoopConfiguration=lambda: None))
    return HadoopFiles(SimpleNamespace(sparkContext=context), str(tmp_path))


def test_a_name_that_is_taken_is_left_alone(files: HadoopFiles, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    assert files.move_new("a", "c")
    assert not files.move_new("b", "c")
    assert (tmp_path / "c" / "file").read_text() == "a"
    assert [each.name for each in (tmp_path / "c").iterdir()] == ["file"]
    assert (tmp_path / "b" / "file").read_text() == "b"


def test_other_errors_are_told(files: HadoopFiles) -> None:
    with pytest.raises(UnwritableDirectoryError, match="No such file"):
        files.move_new("none", "c")
