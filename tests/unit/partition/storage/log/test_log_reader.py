"""Reading a log: slices, wrong indexes, few descriptors, timestamps."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.partition.storage.errors import (
    DamagedHeaderError,
    DamagedRecordsError,
    OffsetOutOfRange,
)
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.environment import InlineEnvironment
from highwater.partition.storage.log.log import PartitionLog
from tests.support.log_batches import (
    append,
    forget_positions,
    headers_in,
    make_batch,
    open_log,
    read_all,
    slice_bytes,
)


def test_offsets_outside_the_log_are_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", log_start_offset=5)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    for offset in (4, 6):
        with pytest.raises(OffsetOutOfRange):
            log.reader.read(offset, 100, end_offset=5)
    assert log.reader.read(5, 100, end_offset=5) is None


def test_a_slice_names_the_file_by_path_and_inode(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(), epoch=0)
    found = log.reader.read(0, 1000, end_offset=1)
    assert found is not None
    assert found.segment.path == "topic-0/00000000000000000000.log"
    assert (tmp_path / found.segment.path).stat().st_ino == found.segment.inode
    assert os.fstat(found.segment.fd).st_ino == found.segment.inode


def test_sequential_reads_after_the_first_touch_no_index(tmp_path: Path) -> None:
    filesystem = FileSystem()
    log = open_log(tmp_path / "topic-0", environment=InlineEnvironment(filesystem))
    for _ in range(300):
        append(log, make_batch(value=b"x" * 300), epoch=0)
    reads: list[int] = []
    pread = filesystem.pread
    filesystem.pread = lambda fd, n, position: reads.append(n) or pread(fd, n, position)
    assert len(read_all(log, 20_000)) == 300
    # Two headers per slice: the length of its first batch, and the next slice's base offset.
    assert 3 <= len(reads) <= 14
    assert set(reads) == {61}


def test_pinned_segments_survive_deletion_and_eviction(tmp_path: Path) -> None:
    environment = InlineEnvironment(open_files=1)
    log = open_log(tmp_path / "topic-0", environment=environment)
    append(log, make_batch(value=b"first"), epoch=0)
    found = log.reader.read(0, 1000, end_offset=1)
    assert found is not None
    found.segment.pin()
    log.roll()
    append(log, make_batch(value=b"second"))
    log.deletion.advance_start(1)
    assert not Path(found.segment.file).exists()
    data = os.pread(found.segment.fd, found.length, found.position)
    assert b"first" in data
    found.segment.unpin()
    assert found.segment.fd < 0


def test_few_descriptors_are_enough_for_many_segments(tmp_path: Path) -> None:
    environment = InlineEnvironment(open_files=3)
    log = open_log(tmp_path / "topic-0", environment=environment)
    for number in range(20):
        append(log, make_batch(value=b"%d" % number), epoch=0)
        log.roll()
    for offset in list(range(20)) + list(range(19, -1, -1)):
        found = log.reader.read(offset, 1000, end_offset=20)
        assert headers_in(slice_bytes(found))[0].base_offset == offset
        assert sum(segment.is_open() for segment in log.extent.all) <= 3
    assert environment.files.evictions > 20
    append(log, make_batch())
    assert len(read_all(log)) == 21


def test_a_slice_says_where_the_next_batch_begins(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    for _ in range(3):
        append(log, make_batch(timestamps=(1, 2)), epoch=0)
    size = log.extent.size_bytes // 3
    for max_bytes, end_offset, following in ((10, 6, 2), (2 * size, 6, 4), (10**6, 4, 4)):
        found = log.reader.read(0, max_bytes, end_offset=end_offset)
        assert found is not None
        assert found.next_offset == following
    assert log.reader.read(2, 10**6, end_offset=6).next_offset == 6  # type: ignore[union-attr]


@pytest.mark.parametrize("max_bytes", [1, 10**6])
def test_the_place_of_the_last_stable_offset_is_looked_up_once(
    tmp_path: Path, max_bytes: int
) -> None:
    log = open_log(tmp_path / "topic-0")
    for _ in range(6):
        append(log, make_batch())
    forget_positions(log)
    first = log.reader.read(0, max_bytes, end_offset=4)
    assert log.extent.positions[4] == 4 * log.extent.active.size // 6
    log.extent.positions[4] += 1  # So that a second look-up would be seen.
    second = log.reader.read(0, 10**6, end_offset=4)
    assert first is not None
    assert second is not None
    assert (first.next_offset, second.next_offset) == (1 if max_bytes == 1 else 4, 4)
    assert second.length == 4 * log.extent.active.size // 6 + 1


def test_no_place_is_remembered_for_an_end_inside_a_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch())
    append(log, make_batch(timestamps=(1, 2, 3)))
    forget_positions(log)
    found = log.reader.read(0, 10**6, end_offset=2)
    assert found is not None
    assert found.length < log.extent.active.size
    assert log.extent.positions.get(2) in (None, found.position + found.length)
    assert log.reader.read(2, 10**6, end_offset=4) is not None


def test_a_slice_stays_pinned_while_another_thread_loads_it(tmp_path: Path) -> None:
    jobs = []

    class Slow(InlineEnvironment):
        def run_later(self, work: object, done: object) -> None:
            jobs.append((work, done))

    log = open_log(tmp_path / "topic-0", environment=Slow())
    append(log, make_batch(value=b"first"), epoch=0)
    append(log, make_batch(value=b"second"), epoch=0)
    loaded: list[bytes] = []
    found = log.reader.read(0, 10**6, end_offset=1)
    assert found is not None
    log.reader.load(found, loaded.append)
    log.truncate_fully_and_start_at(0)
    assert (found.segment.pins, loaded) == (1, [])
    (work, done), *_ = jobs
    work()
    done()
    assert [slice_of[:8] for slice_of in loaded] == [b"\0" * 8]
    assert len(loaded[0]) == found.length
    assert found.segment.pins == 0


def test_only_damaged_records_are_not_read(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    for _ in range(6):
        append(log, make_batch(), epoch=0)
    assert not log.rotten
    log.lost.add(2, 4)
    assert log.rotten

    def read(offset: int) -> list[int]:
        found = log.reader.read(offset, 1 << 20, end_offset=6)
        return [header.base_offset for header in headers_in(slice_bytes(found))]

    assert (read(0), read(1), read(4), read(5)) == ([0, 1], [1], [4, 5], [5])
    for offset in (2, 3):
        with pytest.raises(DamagedRecordsError):
            read(offset)
    log.close(clean=False)
    log = open_log(tmp_path / "topic-0")
    assert log.lost.ranges == ((2, 4),), "a restart knows it"
    log.truncate_to(3)
    append(log, make_batch(), make_batch(), epoch=1)
    assert log.lost.ranges == ((2, 3),)
    log.stored_high_watermark = log.log_end_offset
    log.deletion.advance_start(3)
    assert not log.rotten
    log.truncate_fully_and_start_at(1)
    assert log.lost.ranges == ()
    log.close(clean=False)
    (tmp_path / "topic-0" / ".highwater_damage").write_text("0\n1\nx")
    log = open_log(tmp_path / "topic-0")
    assert log.lost.ranges == ((0, 1),), "something is, and nobody knows what"
    log.close(clean=False)


def closed_with_damage(directory: Path, at: int) -> PartitionLog:
    """Six batches of one record in a closed segment, the fourth damaged at byte `at`; then one."""
    log = open_log(directory)
    for _ in range(6):
        append(log, make_batch(), epoch=0)
    log.roll()
    append(log, make_batch(), epoch=0)
    with Path(log.extent.all[0].file).open("r+b") as file:
        file.seek(log.extent.all[0].size // 2 + at)
        file.write(b"\xff\xff")
    return log


def offsets(log: PartitionLog, offset: int, max_bytes: int = 1 << 20) -> list[int]:
    found = log.reader.read(offset, max_bytes, end_offset=7)
    assert found is not None
    return [header.base_offset for header in headers_in(slice_bytes(found))]


HEADER_FIELDS = {"base offset": 0, "length": 8, "magic": 16, "last offset delta": 23}


@pytest.mark.parametrize("at", HEADER_FIELDS.values(), ids=HEADER_FIELDS)
def test_records_before_a_damaged_header_are_read(tmp_path: Path, at: int) -> None:
    log = closed_with_damage(tmp_path / "topic-0", at)
    log.lost.add(3, 6)
    for _ in range(2):
        assert [offsets(log, offset) for offset in (0, 2, 6)] == [[0, 1, 2], [2], [6]]
        with pytest.raises(DamagedRecordsError):
            log.reader.read(3, 1 << 20, end_offset=7)
        log.close(clean=True)
        log = open_log(tmp_path / "topic-0", clean=True, recovery_point=7)
    log.close(clean=True)


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


@pytest.mark.parametrize("max_bytes", [100, 1 << 20])
@pytest.mark.parametrize("offset", [3, 4, 5])
@pytest.mark.parametrize("how", CHANGES)
def test_a_header_that_contradicts_its_neighbours_is_damage(
    tmp_path: Path, how: str, offset: int, max_bytes: int
) -> None:
    """No record is skipped as if it had been compacted away, and no slice ends at a wrong place."""
    log = six_closed(tmp_path / "topic-0")
    change(log, 3, *CHANGES[how])
    with pytest.raises(DamagedHeaderError) as told:
        log.reader.read(offset, max_bytes, end_offset=7)
    error = told.value
    assert (error.first, error.end, error.position) == (3, 6, log.extent.all[0].size // 2)
    log.lost.add(error.first, error.end)
    for _ in range(2):
        assert [offsets(log, start) for start in (0, 2, 6)] == [[0, 1, 2], [2], [6]]
        assert [offsets(log, start, 100) for start in (0, 1, 2, 6)] == [[0], [1], [2], [6]]
        with pytest.raises(DamagedRecordsError):
            log.reader.read(offset, max_bytes, end_offset=7)
        log.close(clean=True)
        log = open_log(tmp_path / "topic-0", clean=True, recovery_point=7)
    log.close(clean=True)


@pytest.mark.parametrize("max_bytes", [100, 1 << 20])
@pytest.mark.parametrize("batch", [3, 4])
def test_a_length_that_skips_a_batch_is_damage_and_not_a_gap(
    tmp_path: Path, batch: int, max_bytes: int
) -> None:
    log = six_closed(tmp_path / "topic-0")
    change(log, batch, 8, 4, lambda length: 2 * length + 12)
    with pytest.raises(DamagedHeaderError) as told:
        log.reader.read(batch + 1, max_bytes, end_offset=7)
    assert (told.value.first, told.value.end) == (batch, 6)
    log.lost.add(batch, 6)
    assert offsets(log, 0) == list(range(batch))
    assert offsets(log, batch - 1) == [batch - 1]
    log.close(clean=True)


def test_a_header_with_too_small_an_offset_delta_is_damage_and_not_a_gap(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    for _ in range(2):
        append(log, make_batch(timestamps=(1, 2, 3)), epoch=0)
    with Path(log.extent.active.file).open("r+b") as file:
        file.seek(23)
        file.write(bytes(4))
    assert [log.reader.read(n, 1, end_offset=6).next_offset for n in (3, 5)] == [6, 6]  # type: ignore[union-attr]
    with pytest.raises(DamagedHeaderError) as told:
        log.reader.read(2, 1 << 20, end_offset=6)
    assert (told.value.first, told.value.end) == (0, -1)
    log.close(clean=False)


@pytest.mark.parametrize("max_bytes", [10, 100, 1 << 20])
@pytest.mark.parametrize("change_length", [lambda n: n ^ 0x01000000, lambda n: n * 2])
@pytest.mark.parametrize("batch", [0, 2, 5])
def test_lengths_are_checked_where_a_reader_continues(
    tmp_path: Path, batch: int, change_length: Callable[[int], int], max_bytes: int
) -> None:
    """A read at the start of a segment, or where another read stopped, does no look-up."""
    log = six_closed(tmp_path / "topic-0")
    size = log.extent.all[0].size // 6
    if batch:
        assert log.reader.read(0, batch * size, end_offset=7).next_offset == batch  # type: ignore[union-attr]
    change(log, batch, 8, 4, change_length)
    with pytest.raises(DamagedHeaderError) as told:
        log.reader.read(batch, max_bytes, end_offset=7)
    assert (told.value.first, told.value.end) == (batch, 6)
    log.close(clean=True)


def test_damage_above_the_high_watermark_is_not_checked(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    for _ in range(6):
        append(log, make_batch(), epoch=0)
    log.reader.read(3, 1, end_offset=6)
    change(log, 4, 8, 4, lambda length: length ^ 0x01000000)
    for max_bytes in (1, log.extent.size_bytes // 6, 1 << 20):
        found = log.reader.read(3, max_bytes, end_offset=4)
        assert found is not None
        assert (found.length, found.next_offset) == (log.extent.size_bytes // 6, 4)
    log.close(clean=True)


def test_readers_find_damage_after_a_rebuild_of_the_indexes(tmp_path: Path) -> None:
    log = six_closed(tmp_path / "topic-0")
    log.close(clean=True)
    change(log, 3, *CHANGES["length x 2"])
    for name in ("index", "timeindex"):
        (tmp_path / "topic-0" / f"{0:020d}.{name}").unlink()
    log = open_log(tmp_path / "topic-0", clean=True, recovery_point=7)
    with pytest.raises(DamagedHeaderError) as told:
        log.reader.read(4, 100, end_offset=7)
    assert (told.value.first, told.value.end) == (3, 6)
    log.close(clean=True)


def test_a_read_of_a_damaged_header_reports_the_lost_offsets(tmp_path: Path) -> None:
    log = closed_with_damage(tmp_path / "topic-0", HEADER_FIELDS["magic"])
    with pytest.raises(DamagedHeaderError) as told:
        log.reader.read(4, 1 << 20, end_offset=7)
    error = told.value
    assert (error.first, error.end, error.file) == (3, 6, log.extent.all[0].path)
    assert error.position == log.extent.all[0].size // 2
    log.lost.add(error.first, error.end)
    assert offsets(log, 1) == [1, 2]
    log.close(clean=False)
    log = open_log(tmp_path / "topic-0", cache_intact=True, recovery_point=6)
    assert [offsets(log, offset) for offset in (0, 6)] == [[0, 1, 2], [6]]
    log.close(clean=True)


def test_damage_in_the_active_segment_has_no_known_end(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    for _ in range(3):
        append(log, make_batch(), epoch=0)
    segment = log.extent.active
    with Path(segment.file).open("r+b") as file:
        file.seek(segment.size // 3 + HEADER_FIELDS["magic"])
        file.write(b"\xff")
    forget_positions(log)  # The log also forgets them by itself, if there are many.
    with pytest.raises(DamagedHeaderError) as told:
        log.reader.read(2, 1 << 20, end_offset=3)
    assert (told.value.first, told.value.end) == (1, -1)
    log.close(clean=True)


def test_damage_behind_a_gap_is_reported_for_its_own_segment(tmp_path: Path) -> None:
    """A compacted log may lack the end of a segment; the read continues in the next one."""
    log = open_log(tmp_path / "topic-0")
    for _ in range(4):
        append(log, make_batch(), make_batch(), epoch=0)
        log.roll()
    append(log, make_batch(), epoch=0)
    first, second = log.extent.all[:2]
    first.size //= 2  # As if its second batch had been compacted away.
    with Path(second.file).open("r+b") as file:
        file.seek(second.size // 2 + HEADER_FIELDS["magic"])
        file.write(b"\xff")
    with pytest.raises(DamagedHeaderError) as told:
        log.reader.read(1, second.size - 1, end_offset=log.log_end_offset)
    assert (told.value.first, told.value.end, told.value.file) == (3, 4, second.path)
    log.close(clean=True)


@pytest.mark.parametrize("position", ["looked up", "remembered"])
def test_damage_at_the_start_of_a_segment_behind_a_gap_is_reported(
    tmp_path: Path, position: str
) -> None:
    """There are no records before it, so the reader would wait for ever."""
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(), make_batch(), epoch=0)
    log.roll()
    append(log, make_batch(), epoch=0)
    log.roll()
    append(log, make_batch(), epoch=0)
    log.extent.all[0].size //= 2  # As if its second batch had been compacted away.
    if position == "remembered":
        log.extent.positions[1] = log.extent.all[0].size
    assert log.reader.read(1, 1 << 20, end_offset=2) is None, "nothing else is committed"
    log.lost.add(2, 3)
    assert log.reader.read(0, 1 << 20, end_offset=4).next_offset == 2  # type: ignore[union-attr]
    for _ in range(2):
        with pytest.raises(DamagedRecordsError):
            log.reader.read(1, 1 << 20, end_offset=4)
    log.close(clean=True)
