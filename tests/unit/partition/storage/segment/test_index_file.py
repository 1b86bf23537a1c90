"""The part that both indexes have in common, with entries of two int32."""

from pathlib import Path
from struct import Struct

import pytest

from highwater.partition.storage.errors import CorruptIndexError
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.segment.handles import HandleClock
from highwater.partition.storage.segment.index_file import IndexFile

PAIR = Struct(">ii")
ENTRIES = [(10, 1), (20, 1), (30, 5)]


def ascend(data: bytes) -> bool:
    pairs = list(PAIR.iter_unpack(data))
    return pairs == sorted(pairs)


def open_file(path: Path, maps: HandleClock | None = None) -> IndexFile:
    return IndexFile(
        str(path),
        PAIR,
        ascend=ascend,
        stored_bytes=path.stat().st_size if path.exists() else 0,
        filesystem=FileSystem(),
        maps=HandleClock(8) if maps is None else maps,
    )


def packed(*entries: tuple[int, int]) -> bytes:
    return b"".join(PAIR.pack(*entry) for entry in entries)


@pytest.fixture
def file(tmp_path: Path) -> IndexFile:
    (tmp_path / "i").write_bytes(packed(*ENTRIES))
    return open_file(tmp_path / "i")


def test_floor_is_the_last_entry_that_is_not_behind_the_limit(file: IndexFile) -> None:
    assert file.floor(9) is None
    assert file.floor(10) == (10, 1)
    assert file.floor(29) == (20, 1)
    assert file.floor(1000) == (30, 5)


def test_a_mask_takes_some_bits_of_the_field(tmp_path: Path) -> None:
    (tmp_path / "i").write_bytes(packed((0x101, 0), (0x202, 0), (0x303, 0)))
    file = open_file(tmp_path / "i")
    assert file.floor(0, 0xFF) is None
    assert file.floor(2, 0xFF) == (0x202, 0)
    assert file.floor(9, 0xFF) == (0x303, 0)


def test_an_empty_file_has_no_entries_and_is_not_opened(tmp_path: Path) -> None:
    file = open_file(tmp_path / "i")
    assert file.floor(5) is None
    assert list(file.entries()) == []
    file.truncate(0)
    file.clear()
    assert not (tmp_path / "i").exists()
    assert not file.is_open()


def test_appended_entries_follow_the_others(file: IndexFile) -> None:
    assert file.floor(1000) == (30, 5)
    file.append(packed((40, 6), (50, 7)))
    assert not file.is_open(), "the map is too short now"
    assert file.count == 5
    assert file.last() == (50, 7)
    assert file.floor(45) == (40, 6)
    assert list(file.entries()) == [*ENTRIES, (40, 6), (50, 7)]


def test_to_append_nothing_makes_the_file(tmp_path: Path) -> None:
    open_file(tmp_path / "i").append(b"")
    assert (tmp_path / "i").read_bytes() == b""


@pytest.mark.parametrize(
    ("limit", "field", "left"),
    [(31, 0, 3), (30, 0, 2), (11, 0, 1), (0, 0, 0), (6, 1, 3), (5, 1, 2), (1, 1, 0)],
)
def test_truncate_goes_by_either_field(file: IndexFile, limit: int, field: int, left: int) -> None:
    file.truncate(limit, field=field)
    assert list(file.entries()) == ENTRIES[:left]
    assert Path(file.path).stat().st_size == left * PAIR.size


def test_half_an_entry_at_the_end_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "i").write_bytes(packed(*ENTRIES)[:-3])
    file = open_file(tmp_path / "i")
    assert list(file.entries()) == ENTRIES[:2]
    file.append(packed((40, 6)))
    assert list(file.entries()) == [*ENTRIES[:2], (40, 6)]


def test_order_is_checked_once_before_the_first_look_up(tmp_path: Path) -> None:
    (tmp_path / "i").write_bytes(packed((10, 1), (5, 1)))
    file = open_file(tmp_path / "i")
    assert file.last() == (5, 1), "which is not a look-up"
    for look_up in (lambda: file.floor(3), lambda: file.truncate(3), lambda: list(file.entries())):
        with pytest.raises(CorruptIndexError, match="ascend"):
            look_up()
    file.clear()
    assert (tmp_path / "i").read_bytes() == b""
    file.append(packed((1, 1)))
    assert file.floor(3) == (1, 1)


def test_a_file_that_shrank_behind_our_back_is_corrupt(tmp_path: Path) -> None:
    for seen in (False, True):
        (tmp_path / "i").write_bytes(packed(*ENTRIES))
        file = open_file(tmp_path / "i")
        if seen:
            file.floor(10)
            file.release()
        (tmp_path / "i").write_bytes(b"")
        with pytest.raises(CorruptIndexError, match="shorter"):
            file.floor(10)
        with pytest.raises(CorruptIndexError, match="shorter"):
            file.last()


def test_maps_are_limited_and_come_back(tmp_path: Path) -> None:
    maps = HandleClock(2)
    files = []
    for number in range(5):
        (tmp_path / f"i{number}").write_bytes(packed((5, number)))
        files.append(open_file(tmp_path / f"i{number}", maps))
    for _ in range(2):
        for number, file in enumerate(files):
            assert file.floor(5) == (5, number)
            assert sum(f.is_open() for f in files) <= 2
    assert maps.evictions >= 8
