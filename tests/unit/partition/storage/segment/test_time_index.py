import struct
from pathlib import Path

import pytest

from highwater.partition.storage.errors import CorruptIndexError
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.segment.handles import HandleClock
from highwater.partition.storage.segment.index_file import TAIL_ENTRIES_MAX
from highwater.partition.storage.segment.time_index import TimeIndex

BASE = 500


def open_index(path: Path, *, max_bytes: int = 1 << 20) -> TimeIndex:
    return TimeIndex(
        str(path),
        BASE,
        max_bytes=max_bytes,
        stored_bytes=path.stat().st_size if path.exists() else 0,
        filesystem=FileSystem(),
        maps=HandleClock(8),
    )


def test_file_is_big_endian_timestamp_and_relative_offset(tmp_path: Path) -> None:
    index = open_index(tmp_path / "t")
    index.append(1_700_000_000_000, BASE + 3)
    index.flush()
    assert (tmp_path / "t").read_bytes() == struct.pack(">qi", 1_700_000_000_000, 3)


@pytest.mark.parametrize("flushed", [0, 2, 3])
def test_floor_and_last_entry(tmp_path: Path, flushed: int) -> None:
    index = open_index(tmp_path / "t")
    entries = [(100, BASE + 1), (200, BASE + 9), (300, BASE + 20)]
    for number, entry in enumerate(entries):
        index.append(*entry)
        if number + 1 == flushed:
            index.flush()
    assert index.floor(99) == (-1, BASE)
    assert index.floor(100) == entries[0]
    assert index.floor(299) == entries[1]
    assert index.floor(10**15) == entries[2]
    assert index.last_entry() == entries[2]
    assert list(index.entries()) == entries


def test_only_later_timestamps_are_entered(tmp_path: Path) -> None:
    index = open_index(tmp_path / "t")
    index.append(-1, BASE)
    index.append(100, BASE + 1)
    index.append(100, BASE + 2)
    index.append(50, BASE + 3)
    index.flush()
    index.append(100, BASE + 4)
    assert list(index.entries()) == [(100, BASE + 1)]
    reopened = open_index(tmp_path / "t")
    reopened.append(90, BASE + 5)
    reopened.append(101, BASE + 6)
    assert list(reopened.entries()) == [(100, BASE + 1), (101, BASE + 6)]


@pytest.mark.parametrize("flushed", [0, 2, 3])
def test_truncate(tmp_path: Path, flushed: int) -> None:
    index = open_index(tmp_path / "t")
    for number, entry in enumerate([(100, BASE + 1), (200, BASE + 9), (300, BASE + 20)]):
        index.append(*entry)
        if number + 1 == flushed:
            index.flush()
    index.truncate(BASE + 20)
    assert list(index.entries()) == [(100, BASE + 1), (200, BASE + 9)]
    index.append(250, BASE + 21)
    assert index.last_entry() == (250, BASE + 21)
    index.truncate(BASE)
    assert list(index.entries()) == []
    index.append(5, BASE)
    assert index.last_entry() == (5, BASE)


def test_a_page_of_entries_is_written_by_itself(tmp_path: Path) -> None:
    index = open_index(tmp_path / "t")
    for number in range(TAIL_ENTRIES_MAX):
        index.append(number, BASE + number)
    assert (tmp_path / "t").stat().st_size == TAIL_ENTRIES_MAX * 12


def test_one_entry_is_kept_free_for_the_seal(tmp_path: Path) -> None:
    index = open_index(tmp_path / "t", max_bytes=36)
    index.append(1, BASE + 1)
    assert not index.is_full()
    index.append(2, BASE + 2)
    assert index.is_full()


@pytest.mark.parametrize(
    "entries", [[(5, 1), (5, 2)], [(5, 2), (6, 1)], [(-9, 1), (6, 2)], [(5, 1), (0, 0)]]
)
def test_entries_that_do_not_ascend_are_corrupt(
    tmp_path: Path, entries: list[tuple[int, int]]
) -> None:
    (tmp_path / "t").write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries))
    with pytest.raises(CorruptIndexError):
        open_index(tmp_path / "t").floor(10)
