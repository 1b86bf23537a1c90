"""The mark of a copy, and what a power cut may leave of it."""

from pathlib import Path

import pytest

from highwater.partition.storage.directory.move_mark import NO_MARK, MoveMark, read_mark, write_mark
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.names import MOVE_MARK
from tests.support.losing_disk import LosingFileSystem

MARK = MoveMark(token="ab" * 16, generation=3)


def test_a_mark_is_read_again_even_after_a_power_cut(tmp_path: Path) -> None:
    disk = LosingFileSystem(tmp_path)
    assert read_mark(disk, str(tmp_path)) == NO_MARK
    write_mark(disk, str(tmp_path), MARK)
    disk.cut_power()
    assert read_mark(disk, str(tmp_path)) == MARK


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 2}', '{"version": 1}', '{"version": 1, "token": "x"}', "1"]
)
def test_what_is_no_mark_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / MOVE_MARK).write_text(text)
    assert read_mark(FileSystem(), str(tmp_path)) == NO_MARK
