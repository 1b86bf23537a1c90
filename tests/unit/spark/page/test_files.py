"""Where pages go."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="needs the spark extra")

from highwater.model.errors import UnwritableDirectoryError
from highwater.spark.page.files import PageFiles
from highwater.spark.page.view import View

VIEW = View(title="t", subtitle="s")


def test_only_what_is_wanted_is_written(tmp_path: Path):
    assert not PageFiles().are_wanted
    PageFiles().prepare()
    PageFiles().write(VIEW)
    files = PageFiles(html=tmp_path / "deep" / "er" / "page.html")
    assert files.are_wanted
    files.prepare()
    files.write(VIEW)
    assert [str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*.*")] == [
        "deep/er/page.html"
    ]


@pytest.mark.slow
def test_a_page_and_a_picture_of_one_name(tmp_path: Path):
    PageFiles(html=tmp_path / "a.html", png=tmp_path / "a.png").write(VIEW)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.html", "a.png"]
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_directory_that_cannot_be_is_told_before_the_work(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(UnwritableDirectoryError, match="file"):
        PageFiles(png=tmp_path / "file" / "a.png").prepare()
