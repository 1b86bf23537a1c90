"""The limits of a damaged range, and the batches that may fill it."""

import os
from pathlib import Path

import pytest

from highwater.partition.core.leader_epochs import LeaderEpochCache
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.scrubbing.damaged_range import (
    ANY_LENGTH,
    DamagedRange,
    RangeCheck,
    find_range,
    to_segment_end,
)
from tests.support.log_batches import make_batch
from tests.unit.partition.storage.scrubbing.test_scrub import flip

BATCHES = [
    bytes(make_batch(base_offset=2 * n, timestamps=(1, 2), value=b"v" * (40 + n), epoch=n // 3))
    for n in range(5)
]
ENDS = [sum(map(len, BATCHES[: n + 1])) for n in range(5)]


def find(path: Path, first: int, end: int, *, gaps: bool = False) -> DamagedRange:
    fd = os.open(path, os.O_RDONLY)
    try:
        return find_range(
            FileSystem(),
            fd,
            size=path.stat().st_size,
            base_offset=0,
            next_base_offset=10,
            first=first,
            end=end,
            gaps=gaps,
        )
    finally:
        os.close(fd)


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    path = tmp_path / "0.log"
    path.write_bytes(b"".join(BATCHES))
    return path


def test_a_range_between_intact_neighbours(segment: Path) -> None:
    found = find(segment, 2, 4)
    assert (found.begin, found.end) == (ENDS[0], ENDS[1])
    assert (found.offset, found.end_offset, found.nbytes) == (2, 4, len(BATCHES[1]))
    wide = to_segment_end(found, ENDS[4], 10)
    assert (wide.begin, wide.end, wide.end_offset) == (ENDS[0], ENDS[4], 10)
    assert wide.nbytes == ENDS[4] - ENDS[0], "the bytes still have to fit"


@pytest.mark.parametrize("at", [8, 16])
def test_a_range_after_a_destroyed_header_ends_with_the_segment(segment: Path, at: int) -> None:
    flip(str(segment), ENDS[1] + at, 0x40)
    found = find(segment, 4, 10)
    assert (found.begin, found.end, found.offset, found.end_offset) == (ENDS[1], ENDS[4], 4, 10)
    assert found.nbytes == ANY_LENGTH, "its end may be cut off"
    assert find(segment, 4, 10, gaps=True).nbytes == ENDS[4] - ENDS[1]
    assert find(segment, 8, 10).begin == ENDS[1], "what is lost may begin earlier"


def test_a_damaged_neighbour_extends_the_range(segment: Path) -> None:
    flip(str(segment), ENDS[1] + 80)
    assert find(segment, 2, 4).end == ENDS[4]


def check(wanted: DamagedRange, *batches: bytes) -> tuple[str, bool]:
    epochs = LeaderEpochCache([(0, 0), (1, 6)])
    made = RangeCheck(wanted, epochs.epoch_for, epochs.epoch_for(wanted.offset - 1))
    for batch in batches:
        wrong = made.take(batch)
        if wrong:
            return wrong, made.filled
    return "", made.filled


def test_batches_that_fill_a_range(segment: Path) -> None:
    found = find(segment, 2, 6)
    assert check(found, BATCHES[1], BATCHES[2]) == ("", True)
    assert check(found, BATCHES[1] + BATCHES[2]) == ("", True)
    assert check(found, BATCHES[1]) == ("", False)
    assert check(found)[1] is False


def test_batches_that_do_not_fit_a_range(segment: Path) -> None:
    found = find(segment, 2, 6)
    assert "follows 1" in check(found, BATCHES[2])[0]
    assert "behind the range" in check(found, BATCHES[1], BATCHES[2], BATCHES[3])[0]
    assert "header" in check(found, BATCHES[1][:30])[0]
    assert "no batch" in check(found, BATCHES[1][:-1])[0]
    rotten = bytearray(BATCHES[1])
    rotten[80] ^= 1
    assert "CRC" in check(found, bytes(rotten))[0]
    for wrong in (1, 7):
        other = bytes(make_batch(base_offset=2, timestamps=(1, 2), value=b"v" * 41, epoch=wrong))
        assert f"leader epoch {wrong}" in check(found, other)[0]
    smaller = bytes(make_batch(base_offset=2, timestamps=(1, 2), value=b"v", epoch=0))
    assert check(found, smaller, BATCHES[2]) == ("", False), "the bytes do not reach"
    larger = bytes(make_batch(base_offset=2, timestamps=(1, 2), value=b"v" * 90, epoch=0))
    assert "more than" in check(found, larger, BATCHES[2])[0]
