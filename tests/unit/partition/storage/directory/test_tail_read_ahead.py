"""What the kernel is asked to read before logs are opened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from highwater.partition.storage.directory.tail_read_ahead import (
    LOGS_AHEAD,
    TAIL_BYTES,
    TailReadAhead,
)
from highwater.partition.storage.filesystem import FileSystem


class Asked(FileSystem):
    """Notes the file and the range of what is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, int, int]] = []
        self.fadvise = self._note

    def _note(self, fd: int, start: int, length: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_WILLNEED
        path = Path(f"/proc/self/fd/{fd}").readlink()
        self.asked.append((f"{path.parent.name}/{path.name}", start, length))


def log(root: Path, name: str, **sizes: int) -> str:
    directory = root / name
    directory.mkdir()
    for base, size in sizes.items():
        with (directory / f"{base.removeprefix('at_').zfill(20)}.log").open("wb") as file:
            file.truncate(size)
        (directory / f"{base.removeprefix('at_').zfill(20)}.index").touch()
    return str(directory)


def test_the_tail_of_the_last_segment_is_asked_for(tmp_path: Path) -> None:
    filesystem = Asked()
    directories = [
        log(tmp_path, "a-0", at_0=9 * TAIL_BYTES, at_500=3 * TAIL_BYTES + 7),
        log(tmp_path, "b-0"),
        log(tmp_path, "c-0", at_0=100),
    ]
    TailReadAhead(filesystem, directories).opening(0)
    assert filesystem.asked == [
        ("a-0/00000000000000000500.log", 2 * TAIL_BYTES + 7, TAIL_BYTES),
        ("c-0/00000000000000000000.log", 0, TAIL_BYTES),
    ]


def test_each_log_is_asked_for_once_and_not_long_before_its_turn(tmp_path: Path) -> None:
    filesystem = Asked()
    count = LOGS_AHEAD + 3
    ahead = TailReadAhead(filesystem, [log(tmp_path, f"t-{n}", at_0=1) for n in range(count)])
    seen = []
    for number in range(count):
        ahead.opening(number)
        seen.append(len(filesystem.asked))
    assert seen == [LOGS_AHEAD + 1, LOGS_AHEAD + 2] + [count] * (count - 2)
    assert len(set(filesystem.asked)) == count


def test_files_are_closed_if_the_kernel_refuses(tmp_path: Path) -> None:
    filesystem = FileSystem()
    closed: list[int] = []

    def close(fd: int) -> None:
        closed.append(fd)
        os.close(fd)

    def refuse(*_: int) -> None:
        raise OSError("no")

    filesystem.fadvise, filesystem.close = refuse, close
    with pytest.raises(OSError, match="no"):
        TailReadAhead(filesystem, [log(tmp_path, "a-0", at_0=1)]).opening(0)
    assert len(closed) == 1
