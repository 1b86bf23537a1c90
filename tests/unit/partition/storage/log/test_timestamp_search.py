"""Search for records by timestamp in a whole log."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from highwater.partition.storage.errors import (
    DamagedHeaderError,
)
from highwater.partition.storage.log import segment_lookup
from highwater.partition.storage.log.log import PartitionLog
from tests.support.log_batches import (
    append,
    make_batch,
    open_log,
)
from tests.support.searches import found_by


def test_timestamps_inside_compressed_batches(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(timestamps=(10, 30, 20, 50), compression=4), epoch=0)
    append(log, make_batch(timestamps=(40, 60), compression=1), epoch=2)
    assert found_by(log.search.first_at_or_after(0)) == (10, 0, 0)
    assert found_by(log.search.first_at_or_after(20)) == (30, 1, 0)
    assert found_by(log.search.first_at_or_after(40)) == (50, 3, 0)
    assert found_by(log.search.first_at_or_after(55)) == (60, 5, 2)
    assert found_by(log.search.first_at_or_after(61)) is None
    assert found_by(log.search.first_with_largest())[:2] == (60, 5)
    log.deletion.advance_start(2)
    assert found_by(log.search.first_at_or_after(0)) == (20, 2, 0)


def six_closed(directory: Path) -> PartitionLog:
    """Six equal batches of one record, a millisecond apart, in a closed segment; then one."""
    log = open_log(directory)
    for number in range(7):
        append(log, make_batch(timestamps=(1000 + number,)), epoch=0)
        if number == 5:
            log.roll()
    return log


def change(log: PartitionLog, batch: int, at: int, nbytes: int, how: Callable[[int], int]) -> None:
    """Change an integer in the header of a batch of the first segment."""
    with Path(log.extent.all[0].file).open("r+b") as file:
        file.seek(log.extent.all[0].size // 6 * batch + at)
        value = int.from_bytes(file.read(nbytes))
        file.seek(-nbytes, os.SEEK_CUR)
        file.write(how(value).to_bytes(nbytes))


CHANGES: dict[str, tuple[int, int, Callable[[int], int]]] = {
    "length ^ 0x01000000": (8, 4, lambda length: length ^ 0x01000000),
    "length ^ 0x10000000": (8, 4, lambda length: length ^ 0x10000000),
    "length x 2": (8, 4, lambda length: length * 2),
    "length + 8": (8, 4, lambda length: length + 8),
    "length - 8": (8, 4, lambda length: length - 8),
    "last offset delta ^ 0x01000000": (23, 4, lambda delta: delta ^ 0x01000000),
    "last offset delta + 1": (23, 4, lambda delta: delta + 1),
    "last offset delta + 2": (23, 4, lambda delta: delta + 2),
    "base offset back": (0, 8, lambda offset: offset - 1),
    "base offset ahead": (0, 8, lambda offset: offset + 4),
}


@pytest.mark.parametrize("batch", [0, 3])
def test_timestamps_are_found_around_known_damage(
    tmp_path: Path, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the damage is before the segment's first index entry."""
    log = six_closed(tmp_path / "topic-0")
    change(log, batch, *CHANGES["length ^ 0x01000000"])
    log.close(clean=True)
    rebuilt: list[int] = []
    rebuild = segment_lookup.rebuild_indexes

    def counted(*args: Any, **options: Any) -> None:
        rebuilt.append(1)
        rebuild(*args, **options)

    monkeypatch.setattr(segment_lookup, "rebuild_indexes", counted)
    log = open_log(tmp_path / "topic-0", clean=True, recovery_point=7)
    with pytest.raises(DamagedHeaderError) as told:
        found_by(log.search.first_at_or_after(1000))
    assert (told.value.first, told.value.end) == (batch, 6)
    log.lost.add(batch, 6)
    for _ in range(2):
        for timestamp in range(1000, 1007):
            number = timestamp - 1000
            expected = number if number < batch else 6
            assert found_by(log.search.first_at_or_after(timestamp)) == (
                1000 + expected,
                expected,
                0,
            )
        assert found_by(log.search.first_at_or_after(1007)) is None
        assert found_by(log.search.first_with_largest())[:2] == (1006, 6)
        log.close(clean=True)
        log = open_log(tmp_path / "topic-0", clean=True, recovery_point=7)
    assert len(rebuilt) <= 2, "once, and once more after a start"
    log.stored_high_watermark = 7
    log.deletion.advance_start(4)
    assert found_by(log.search.first_at_or_after(1000)) == (1006, 6, 0)
    log.close(clean=True)
