"""Ranges of records that are known to be damaged."""

from pathlib import Path

import pytest

from highwater.partition.storage import checkpoint
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.errors import DamagedRecordsError
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.environment import InlineEnvironment
from highwater.partition.storage.log.lost_ranges import LostRanges
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.names import DAMAGE
from tests.support.log_batches import ManualClock


@pytest.fixture
def lost(tmp_path: Path) -> LostRanges:
    environment = InlineEnvironment()
    place = LogPlace(
        str(tmp_path), config=LogConfig(), clock=ManualClock(), environment=environment
    )
    return LostRanges(place, ())


def written(directory: Path) -> list[tuple[int, int]]:
    return list(checkpoint.read_ranges(FileSystem(), str(directory / DAMAGE)))


def test_a_read_ends_before_a_lost_range_and_cannot_begin_in_it(lost: LostRanges) -> None:
    lost.add(10, 12)
    assert lost.readable_end(0, 100) == 10
    assert lost.readable_end(0, 7) == 7
    assert lost.readable_end(12, 100) == 100
    for offset in (10, 11):
        assert lost.has(offset)
        with pytest.raises(DamagedRecordsError):
            lost.readable_end(offset, 100)
    assert not lost.has(12)


def test_lost_ranges_survive_a_restart(lost: LostRanges, tmp_path: Path) -> None:
    lost.add(10, 12)
    lost.add(20, 30)
    assert written(tmp_path) == [(10, 12), (20, 30)]


def test_a_truncation_removes_lost_ranges_behind_it(lost: LostRanges, tmp_path: Path) -> None:
    lost.add(10, 12)
    lost.add(20, 30)
    lost.cut(25)
    assert lost.ranges == ((10, 12), (20, 25))
    lost.cut(20)
    assert lost.ranges == ((10, 12),)
    assert written(tmp_path) == [(10, 12)]


def test_lost_ranges_before_the_log_start_do_not_count(lost: LostRanges) -> None:
    assert not lost.any_from(0)
    lost.add(10, 12)
    assert lost.any_from(11)
    assert not lost.any_from(12)
