import struct
from pathlib import Path

import pytest

from highwater.partition.storage.errors import CorruptIndexError
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.segment.handles import HandleClock
from highwater.partition.storage.segment.index import OffsetIndex
from highwater.partition.storage.segment.index_file import TAIL_ENTRIES_MAX

BASE = 1000


def open_index(path: Path, *, max_bytes: int = 1 << 20) -> OffsetIndex:
    return OffsetIndex(
        str(path),
        BASE,
        max_bytes=max_bytes,
        stored_bytes=path.stat().st_size if path.exists() else 0,
        filesystem=FileSystem(),
        maps=HandleClock(8),
    )


def test_file_is_big_endian_relative_offset_and_position(tmp_path: Path) -> None:
    index = open_index(tmp_path / "i")
    index.append(BASE + 7, 300)
    index.append(BASE + 90, 5000)
    index.flush()
    assert (tmp_path / "i").read_bytes() == struct.pack(">iiii", 7, 300, 90, 5000)


@pytest.mark.parametrize("flushed", [0, 1, 3, 6])
def test_floor_finds_the_last_entry_not_after_the_offset(tmp_path: Path, flushed: int) -> None:
    index = open_index(tmp_path / "i")
    entries = [(BASE + 10 * n, 100 * n) for n in range(1, 7)]
    for number, (offset, position) in enumerate(entries):
        index.append(offset, position)
        if number + 1 == flushed:
            index.flush()
    assert list(index.entries()) == entries
    assert len(index) == 6
    assert index.floor(BASE) == 0
    assert index.floor(BASE + 9) == 0
    for offset, position in entries:
        assert index.floor(offset) == position
        assert index.floor(offset + 9) == position
        assert index.floor_position(position) == position
        assert index.floor_position(position + 99) == position
    assert index.floor_position(99) == 0
    assert index.last_entry() == entries[-1]


def test_a_page_of_entries_is_written_by_itself(tmp_path: Path) -> None:
    index = open_index(tmp_path / "i")
    for number in range(TAIL_ENTRIES_MAX):
        assert not (tmp_path / "i").exists()
        index.append(BASE + number, number + 1)
    assert (tmp_path / "i").stat().st_size == TAIL_ENTRIES_MAX * 8
    assert index.floor(BASE + 100) == 101


@pytest.mark.parametrize("flushed", [0, 2, 4])
@pytest.mark.parametrize("cut", [0, 15, 20, 21, 45])
def test_truncate_drops_entries_at_or_after_the_offset(
    tmp_path: Path, flushed: int, cut: int
) -> None:
    index = open_index(tmp_path / "i")
    entries = [(BASE + 10 * n, 100 * n) for n in range(1, 5)]
    for number, (offset, position) in enumerate(entries):
        index.append(offset, position)
        if number + 1 == flushed:
            index.flush()
    index.truncate(BASE + cut)
    assert list(index.entries()) == [e for e in entries if e[0] < BASE + cut]
    index.append(BASE + 50, 900)
    index.flush()
    assert list(open_index(tmp_path / "i").entries()) == list(index.entries())


def test_is_full_at_the_configured_size(tmp_path: Path) -> None:
    index = open_index(tmp_path / "i", max_bytes=20)
    index.append(BASE + 1, 1)
    assert not index.is_full()
    index.append(BASE + 2, 2)
    assert index.is_full()


@pytest.mark.parametrize(
    "entries",
    [
        [(5, 100), (5, 200)],
        [(5, 100), (4, 200)],
        [(5, 100), (6, 100)],
        [(5, 200), (6, 100)],
        [(-1, 100), (6, 200)],
        [(5, 100), (0, 0)],
    ],
)
def test_entries_that_do_not_ascend_are_corrupt(
    tmp_path: Path, entries: list[tuple[int, int]]
) -> None:
    (tmp_path / "i").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    index = open_index(tmp_path / "i")
    with pytest.raises(CorruptIndexError):
        index.floor(BASE + 9)


def test_a_file_that_shrank_behind_our_back_is_corrupt(tmp_path: Path) -> None:
    (tmp_path / "i").write_bytes(struct.pack(">iiii", 1, 1, 2, 2))
    index = open_index(tmp_path / "i")
    (tmp_path / "i").write_bytes(b"")
    with pytest.raises(CorruptIndexError):
        index.floor(BASE + 9)
    with pytest.raises(CorruptIndexError):
        index.last_entry()


def test_reset_forgets_everything(tmp_path: Path) -> None:
    (tmp_path / "i").write_bytes(b"\xff" * 80)
    index = open_index(tmp_path / "i")
    index.reset()
    assert len(index) == 0
    assert index.floor(BASE + 5) == 0
    assert (tmp_path / "i").stat().st_size == 0
