from pathlib import Path

import pytest

from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.names import GAPS_MARKER
from highwater.partition.storage.recovery.segment_ends import (
    End,
    Gaps,
    offsets_rise,
    read_gaps,
    segment_end,
    shorter_than_indexed,
    write_gaps,
)
from highwater.partition.storage.segment.segment import Segment
from tests.support.log_batches import append, make_batch, open_log

FILES = FileSystem()
BATCH = make_batch(value=b"x" * 20)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    """Ten batches, with an index entry before each but the first two."""
    made = open_log(tmp_path / "topic-0", LogConfig(index_interval_bytes=1))
    for _ in range(10):
        append(made, BATCH, epoch=0)
    made.extent.active.seal()
    return made


def cut(log: PartitionLog, size: int) -> Segment:
    with Path(log.extent.active.file).open("r+b") as file:
        file.truncate(size)
    log.extent.active.size = size
    return log.extent.active


def garble(log: PartitionLog, position: int, data: bytes) -> None:
    with Path(log.extent.active.file).open("r+b") as file:
        file.seek(position)
        file.write(data)


@pytest.mark.parametrize("indexed", [True, False])
def test_a_cut_at_every_byte_of_the_last_batches(log: PartitionLog, indexed: bool) -> None:
    segment = log.extent.active
    if not indexed:
        segment.index.reset()
    assert segment_end(FILES, segment) == 10
    for size in range(segment.size - 1, segment.size - 2 * len(BATCH) - 1, -1):
        whole, rest = divmod(size, len(BATCH))
        assert segment_end(FILES, cut(log, size)) == (End.CUT if rest else whole), size
    assert segment_end(FILES, cut(log, 0)) == 0


@pytest.mark.parametrize("length", [7, 1 << 20, (1 << 31) - 1])
@pytest.mark.parametrize("number", [0, 8, 9])
def test_a_length_that_has_changed_is_damage_and_not_a_cut(
    log: PartitionLog, number: int, length: int
) -> None:
    log.extent.active.index.reset()
    garble(log, number * len(BATCH) + 8, length.to_bytes(4))
    assert segment_end(FILES, log.extent.active) is End.UNREADABLE


def test_an_index_entry_beyond_any_batch_does_not_matter(log: PartitionLog) -> None:
    path = Path(log.extent.active.index.file.path)
    path.write_bytes(path.read_bytes()[:-8] + (9).to_bytes(4) + (50).to_bytes(4))
    assert segment_end(FILES, log.extent.active) == 10


def test_an_index_shows_that_its_batches_are_missing(
    log: PartitionLog,
) -> None:
    segment = log.extent.active
    last = list(segment.index.entries())[-1][1]
    assert not shorter_than_indexed(FILES, segment)
    assert not shorter_than_indexed(FILES, cut(log, last + 1))
    assert shorter_than_indexed(FILES, cut(log, last))
    assert shorter_than_indexed(FILES, cut(log, last - len(BATCH) + 1))
    garble(log, last - 2 * len(BATCH), b"\1" * 8)
    assert not shorter_than_indexed(FILES, segment), "an index of something else proves nothing"
    assert not shorter_than_indexed(FILES, cut(log, 0))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("offset", [0, 3, 4, 6, 1 << 40])
def test_an_offset_that_has_changed_is_damage_and_no_hole(
    tmp_path: Path, offset: int, clean: bool
) -> None:
    """In the last batch of a closed segment, before the recovery point: nothing may be cut."""
    made = open_log(tmp_path / "topic-0")
    for _ in range(2):
        append(made, *[BATCH] * 6, epoch=0)
        made.roll()
    append(made, BATCH)
    made.close(clean=clean)
    with Path(made.extent.all[0].file).open("r+b") as file:
        file.seek(5 * len(BATCH))
        file.write(offset.to_bytes(8))
    log = open_log(tmp_path / "topic-0", clean=clean, recovery_point=13)
    assert (log.log_end_offset, len(log.extent.all), log.damaged) == (13, 3, False)
    assert offsets_rise(FILES, log.extent.all[0]) == (offset >= 5)
    log.close(clean=False)


def test_the_marker(tmp_path: Path) -> None:
    directory = str(tmp_path)
    assert read_gaps(FILES, directory, []) is Gaps.NOWHERE
    write_gaps(FILES, directory, Gaps.ANYWHERE)
    assert read_gaps(FILES, directory, [GAPS_MARKER]) is Gaps.ANYWHERE
    write_gaps(FILES, directory, Gaps.INSIDE)
    assert read_gaps(FILES, directory, [GAPS_MARKER]) is Gaps.INSIDE
    (tmp_path / GAPS_MARKER).write_bytes(b"x" * 1000)
    assert read_gaps(FILES, directory, [GAPS_MARKER]) is Gaps.ANYWHERE
