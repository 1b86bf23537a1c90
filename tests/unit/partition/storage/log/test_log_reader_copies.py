"""Small reads that come with their bytes: the same slices, with one call of the system."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.errors import (
    DamagedHeaderError,
    DamagedRecordsError,
    LogDirFailure,
)
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.environment import InlineEnvironment
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.log.log_slice import LogSlice
from tests.support.log_batches import append, forget_positions, make_batch, open_log, slice_bytes
from tests.unit.partition.storage.log.test_log_reader import CHANGES, change, six_closed

SMALL = 32 << 10


class Counting(FileSystem):
    """Counts reads by kind."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        pread, preadv = self.pread, self.preadv
        self.pread = lambda *args: self.calls.append("pread") or pread(*args)
        self.preadv = lambda *args: self.calls.append("preadv") or preadv(*args)


@pytest.fixture
def files() -> Counting:
    return Counting()


@pytest.fixture
def log(tmp_path: Path, files: Counting) -> PartitionLog:
    """Ten batches of about 1000 bytes, one record each, and an index entry for each."""
    made = open_log(
        tmp_path / "topic-0",
        LogConfig(index_interval_bytes=1),
        environment=InlineEnvironment(files),
    )
    for number in range(10):
        append(made, make_batch(value=b"%d" % number * 1000), epoch=0)
    made.reader.read(0, 1, end_offset=10)  # The place of offset 1 is remembered.
    files.calls.clear()
    return made


def size_of(log: PartitionLog) -> int:
    """The bytes of one batch."""
    return log.extent.size_bytes // log.log_end_offset


def read(
    log: PartitionLog,
    offset: int,
    max_bytes: int,
    *,
    end_offset: int | None = None,
    copied_bytes_max: int = SMALL,
    **how: bool,
) -> LogSlice | None:
    end_offset = log.log_end_offset if end_offset is None else end_offset
    return log.reader.read(
        offset, max_bytes, end_offset=end_offset, copied_bytes_max=copied_bytes_max, **how
    )


def copied(log: PartitionLog, offset: int, max_bytes: int, **how: int) -> tuple[int, int]:
    """(number of batches, next offset) of a read with its bytes, which are those of its slice."""
    found = read(log, offset, max_bytes, **how)
    assert found is not None
    assert found.data is not None
    assert len(found.data) == found.length
    assert found.data == slice_bytes(found)
    assert int.from_bytes(found.data[:8]) == offset
    return found.length // size_of(log), found.next_offset


@pytest.mark.parametrize("more", [0, 1, 60, 61, 500])
def test_one_batch_that_fills_a_fetch_is_one_call(
    log: PartitionLog, files: Counting, more: int
) -> None:
    """The next batch does not fit, whether its header was read or not."""
    assert copied(log, 1, size_of(log) + more) == (1, 2)
    assert copied(log, 2, size_of(log) + more) == (1, 3)
    assert files.calls == ["preadv", "preadv"]


@pytest.mark.parametrize("max_bytes", [9, 10, 1 << 20])
def test_everything_up_to_the_end_is_one_call(
    log: PartitionLog, files: Counting, max_bytes: int
) -> None:
    assert copied(log, 1, max_bytes * size_of(log)) == (9, 10)
    assert files.calls == ["preadv"]
    append(log, make_batch(value=b"x" * 1000))
    files.calls.clear()
    assert copied(log, 10, 1 << 20) == (1, 11), "where the last read stopped"
    assert files.calls == ["preadv"]


@pytest.mark.parametrize("more", [0, 1, 60, 61, 500])
@pytest.mark.parametrize("batches", [2, 5])
def test_many_batches_are_cut_by_the_index(
    log: PartitionLog, files: Counting, batches: int, more: int
) -> None:
    assert copied(log, 1, batches * size_of(log) + more) == (batches, 1 + batches)
    # The header behind the cut has the next offset.
    assert files.calls == (["preadv"] if more > 60 else ["preadv", "pread"])


@pytest.mark.parametrize("more", [0, 1, 60, 61, 500])
def test_many_batches_are_cut_by_their_headers_between_index_entries(
    tmp_path: Path, files: Counting, more: int
) -> None:
    environment = InlineEnvironment(files)
    log = open_log(tmp_path / "other-0", environment=environment)
    append(log, *[make_batch(value=b"x" * 1000) for _ in range(10)], epoch=0)
    files.calls.clear()
    assert copied(log, 0, 3 * size_of(log) + more) == (3, 3)
    assert files.calls == ["preadv"]


def test_a_batch_that_is_larger_than_the_fetch_stays_in_its_file(log: PartitionLog) -> None:
    for max_bytes in (0, 1, 61, 500, size_of(log) - 1):
        found = read(log, 1, max_bytes)
        assert found is not None
        assert (found.data, found.length, found.next_offset) == (None, size_of(log), 2)
        assert read(log, 1, max_bytes, min_one_batch=False) is None
    assert copied(log, 1, size_of(log), min_one_batch=False) == (1, 2)


@pytest.mark.parametrize("batches", [1, 4])
def test_more_than_the_limit_stays_in_its_file(log: PartitionLog, batches: int) -> None:
    limit = batches * size_of(log)
    for copied_bytes_max in (0, limit - 1):
        for max_bytes, end_offset in ((limit, 10), (1 << 20, 1 + batches)):
            found = read(
                log, 1, max_bytes, end_offset=end_offset, copied_bytes_max=copied_bytes_max
            )
            assert found is not None
            assert (found.data, found.length) == (None, limit)
    assert copied(log, 1, limit, copied_bytes_max=limit) == (batches, 1 + batches)
    assert copied(log, 1, 1 << 20, end_offset=1 + batches, copied_bytes_max=limit)[0] == batches


@pytest.mark.parametrize("max_batches", [2, 3, 20])
def test_nothing_above_the_high_watermark_is_copied(log: PartitionLog, max_batches: int) -> None:
    """Inside the range, at its end, and behind it."""
    expected = min(max_batches, 3)
    max_bytes = max_batches * size_of(log)
    assert copied(log, 1, max_bytes, end_offset=4) == (expected, 1 + expected)
    assert read(log, 4, max_bytes, end_offset=4) is None


def no_bytes(how: str) -> Callable[..., int]:
    def preadv(_fd: int, buffers: tuple[bytearray], _position: int, _flags: int) -> int:
        if how == "short":
            return len(buffers[0]) - 1
        if how == "nothing":
            return 0
        raise OSError(getattr(errno, how), how)

    return preadv


@pytest.mark.parametrize("how", ["EAGAIN", "EOPNOTSUPP", "short", "nothing"])
def test_what_is_not_in_memory_stays_in_its_file(
    log: PartitionLog, files: Counting, how: str
) -> None:
    """The loop must not wait for a disk."""
    files.preadv = no_bytes(how)
    size = size_of(log)
    for max_bytes, length in ((size, size), (3 * size + 5, 3 * size), (1 << 20, 9 * size)):
        found = read(log, 1, max_bytes)
        assert found is not None
        assert (found.data, found.length) == (None, length)


def test_a_disk_that_fails_is_a_failure_of_the_directory(
    log: PartitionLog, files: Counting
) -> None:
    files.preadv = no_bytes("EIO")
    for max_bytes in (size_of(log), 1 << 20):
        with pytest.raises(LogDirFailure):
            read(log, 1, max_bytes)


def test_a_copy_ends_with_its_segment(log: PartitionLog) -> None:
    log.roll()
    for _ in range(2):
        append(log, make_batch(value=b"x" * 1000))
    size = log.extent.active.size // 2
    for offset, max_bytes, following in ((8, 1 << 20, 10), (10, 1 << 20, 12), (10, size, 11)):
        found = read(log, offset, max_bytes)
        assert found is not None
        assert found.data == slice_bytes(found)
        assert (found.length, found.next_offset) == ((following - offset) * size, following)


def test_a_copy_opens_its_file_and_marks_the_segment_as_used(tmp_path: Path) -> None:
    environment = InlineEnvironment(open_files=2)
    log = open_log(tmp_path / "topic-0", environment=environment)
    for number in range(8):
        append(log, make_batch(value=b"%d" % number), epoch=0)
        log.roll()
    for offset in (*range(8), *reversed(range(8))):
        segment = log.extent.all[offset]
        segment.referenced = False
        found = read(log, offset, 1000)
        assert found is not None
        assert found.data == slice_bytes(found)
        assert segment.referenced
        assert segment.pins == 0
        assert sum(segment.is_open() for segment in log.extent.all) <= 2


def test_only_sound_records_before_lost_ones_are_copied(log: PartitionLog) -> None:
    log.lost.add(4, 6)
    for max_bytes in (3 * size_of(log), 1 << 20):
        assert copied(log, 1, max_bytes) == (3, 4)
    assert copied(log, 6, 1 << 20) == (4, 10)
    for offset in (4, 5):
        with pytest.raises(DamagedRecordsError):
            read(log, offset, 1 << 20)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("max_bytes", [100, 1 << 20])
@pytest.mark.parametrize("how", CHANGES)
def test_a_damaged_header_is_found_as_without_a_copy(
    tmp_path: Path, how: str, max_bytes: int, known: bool
) -> None:
    """Where the place is known the first header is in the buffer; else the look-up reads it."""

    def told(directory: Path, copied_bytes_max: int) -> tuple[int, int, int] | int:
        log = six_closed(directory)
        if known:
            size = log.extent.all[0].size // 6
            assert log.reader.read(0, 3 * size, end_offset=7).next_offset == 3  # type: ignore[union-attr]
        change(log, 3, *CHANGES[how])
        try:
            found = read(log, 3, max_bytes, copied_bytes_max=copied_bytes_max)
        except DamagedHeaderError as error:
            return error.first, error.end, error.position
        finally:
            log.close(clean=False)
        assert found is not None
        return found.length

    outcome = told(tmp_path / "topic-0", SMALL)
    assert outcome == told(tmp_path / "other-0", 0)
    if not known:
        assert isinstance(outcome, tuple)


def test_a_damaged_second_header_is_found(log: PartitionLog) -> None:
    """It must be read to cut the slice; the slices before it do not need it."""
    size = size_of(log)
    with Path(log.extent.active.file).open("r+b") as file:
        file.seek(2 * size + 16)
        file.write(b"\xff")
    assert copied(log, 1, size) == (1, 2)
    forget_positions(log)
    with pytest.raises(DamagedHeaderError) as told:
        read(log, 2, 1 << 20)
    assert told.value.position == 2 * size
