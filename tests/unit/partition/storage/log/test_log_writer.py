"""Appending to a log: groups, failed and short writes, rolls, a disk that hangs."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.partition.core.producers import ACCEPT
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.errors import (
    LogDirFailure,
)
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.environment import InlineEnvironment
from highwater.partition.storage.log.log import PartitionLog
from tests.support.log_batches import (
    ManualClock,
    append,
    headers_in,
    make_batch,
    open_log,
    read_all,
    slice_bytes,
)


def test_a_group_is_one_write_whatever_its_pieces(tmp_path: Path) -> None:
    filesystem = FileSystem()
    calls: list[int] = []
    write = filesystem.pwritev

    def counting(fd: int, buffers: list[bytes], position: int) -> int:
        calls.append(len(buffers))
        return write(fd, buffers, position)

    filesystem.pwritev = counting
    log = open_log(tmp_path / "topic-0", environment=InlineEnvironment(filesystem))
    append(log, make_batch(), epoch=0)
    calls.clear()
    append(log, *[make_batch() for _ in range(50)])
    assert calls == [50]
    assert len(read_all(log)) == 51


def test_short_writes_are_continued(tmp_path: Path) -> None:
    filesystem = FileSystem()
    write = filesystem.pwritev
    filesystem.pwritev = lambda fd, buffers, position: write(
        fd, [memoryview(b"".join(buffers))[:37]], position
    )
    log = open_log(tmp_path / "topic-0", environment=InlineEnvironment(filesystem))
    append(log, *[make_batch(value=b"x" * 100) for _ in range(5)], epoch=0)
    append(log, *[make_batch(value=b"y" * 100) for _ in range(5)])
    assert len(read_all(log)) == 10


def test_more_buffers_than_one_writev_takes(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, *[make_batch() for _ in range(2500)], epoch=0)
    assert len(read_all(log)) == 2500


@pytest.mark.parametrize("first", [True, False])
def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, first: bool) -> None:
    filesystem = FileSystem()
    write = filesystem.pwritev
    log = open_log(tmp_path / "topic-0", environment=InlineEnvironment(filesystem))
    if not first:
        append(log, make_batch(), epoch=0)
        append(log, make_batch())
    size, end = log.size_bytes, log.log_end_offset

    def full(fd: int, buffers: list[bytes], position: int) -> int:
        write(fd, [b"".join(buffers)[:11]], position)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    filesystem.pwritev = full
    log = _with_pwritev(log, full)
    with pytest.raises(LogDirFailure) as failed:
        append(log, make_batch(), make_batch())
    assert failed.value.cause.errno == errno.ENOSPC
    assert log.log_end_offset == end
    assert Path(log.active_segment.file).stat().st_size == size


def _with_pwritev(log: PartitionLog, function: object) -> PartitionLog:
    """The log binds the function when it is opened; a disk fails later."""
    log._pwritev = function
    return log


def test_what_could_not_be_cut_off_is_cut_off_by_recovery(tmp_path: Path) -> None:
    filesystem = FileSystem()
    log = open_log(tmp_path / "topic-0", environment=InlineEnvironment(filesystem))
    append(log, make_batch(), epoch=0)
    size = log.size_bytes

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def torn(fd: int, buffers: list[bytes], position: int) -> int:
        os.pwrite(fd, b"".join(buffers)[:30], position)
        return fail()

    filesystem.ftruncate = fail
    with pytest.raises(LogDirFailure) as failed:
        append(_with_pwritev(log, torn), make_batch())
    assert "cut off" in failed.value.__notes__[0]
    assert Path(log.active_segment.file).stat().st_size == size + 30
    log = open_log(tmp_path / "topic-0")
    assert log.truncated_bytes == 30
    assert log.log_end_offset == 1


def test_rolls_before_a_batch_that_would_overflow_also_inside_a_group(tmp_path: Path) -> None:
    size = len(make_batch(value=b"x" * 40))
    log = open_log(tmp_path / "topic-0", LogConfig(segment_bytes=3 * size + 1))
    append(log, *[make_batch(value=b"x" * 40, timestamps=(n,)) for n in range(10)], epoch=0)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6, 9]
    assert [segment.max_timestamp for segment in log.segments] == [2, 5, 8, 9]
    assert [segment.max_timestamp_offset for segment in log.segments] == [2, 5, 8, 9]
    append(log, make_batch(value=b"x" * 40))
    assert len(log.segments) == 4
    names = sorted(path.name for path in (tmp_path / "topic-0").glob("*.log"))
    assert names[1] == "00000000000000000003.log"


def test_rolls_by_time_from_the_segments_first_timestamp(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(segment_ms=1000, segment_jitter_ms=100))
    append(log, make_batch(timestamps=(5000,)), epoch=0)
    append(log, make_batch(timestamps=(5900,)))
    assert len(log.segments) == 1
    append(log, make_batch(timestamps=(5901,)))
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    append(log, make_batch(timestamps=(5902,)))
    assert len(log.segments) == 2
    log.close(clean=True)
    log = open_log(tmp_path / "topic-0", LogConfig(segment_ms=1000), clean=True)
    append(log, make_batch(timestamps=(6902,)))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]


def test_rolls_by_the_clock_if_records_have_no_timestamps(tmp_path: Path) -> None:
    clock = ManualClock(10_000)
    log = open_log(tmp_path / "topic-0", LogConfig(segment_ms=1000), clock=clock)
    append(log, make_batch(timestamps=(-1,)), epoch=0)
    clock.now_ms += 1000
    append(log, make_batch(timestamps=(-1,)))
    assert len(log.segments) == 1
    clock.now_ms += 1
    append(log, make_batch(timestamps=(-1,)))
    assert len(log.segments) == 2


def test_rolls_when_an_index_is_full(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(index_interval_bytes=1, segment_index_bytes=36))
    for number in range(8):
        append(log, make_batch(timestamps=(number,)), epoch=0)
    assert len(log.segments) > 1
    assert all(len(segment.time_index) <= 3 for segment in log.segments)
    assert len(read_all(log)) == 8


def test_rolls_when_a_relative_offset_would_not_fit(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(), epoch=0)
    far = make_batch(base_offset=2**31 - 1)
    # A compacted log may have such a gap; a leader never makes one.
    log.append([far], len(far), [2**31 - 1], [len(far)], 2**31, 1000, 2**31 - 1, 0)
    assert len(log.segments) == 1
    far = make_batch(base_offset=2**31)
    log.append([far], len(far), [2**31], [len(far)], 2**31 + 1, 1000, 2**31, 0)
    assert [segment.base_offset for segment in log.segments] == [0, 2**31]


def test_a_roll_syncs_the_old_segment_and_leaves_a_snapshot(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    now = ManualClock().now_ms
    batch = make_batch(producer_id=5, producer_epoch=0, base_sequence=0, timestamps=(now,))
    append(log, batch, epoch=0)
    assert log.recovery_point == 0
    log.roll()
    assert log.recovery_point == 1
    assert (tmp_path / "topic-0" / "00000000000000000001.snapshot").exists()
    log.roll()
    assert len(log.segments) == 2, "an empty segment is not rolled"
    log.close(clean=False)
    log = open_log(tmp_path / "topic-0", recovery_point=1)
    assert log.producers.check(5, 0, 1, 1) == ACCEPT
    assert log.producers.check(5, 0, 0, 0) == 0


def test_a_log_keeps_few_producer_snapshots(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    for _ in range(12):
        append(log, make_batch(), epoch=0)
        log.roll()
    assert len(list((tmp_path / "topic-0").glob("*.snapshot"))) == 5


def test_a_snapshot_of_a_log_that_is_gone_harms_nobody(tmp_path: Path) -> None:
    environment = InlineEnvironment()
    later: list[Callable[[], None]] = []
    environment.run_later = lambda work, done: later.append(work)
    log = open_log(tmp_path / "topic-0", environment=environment)
    append(log, make_batch(), epoch=0)
    log.roll()
    log.delete("0" * 32)
    for work in later:
        work()
    assert list(tmp_path.iterdir()) == []


def test_a_snapshot_of_what_was_cut_off_meanwhile_is_not_left(tmp_path: Path) -> None:
    """The producer's second batch is in no log, and must not be taken for a duplicate."""
    environment = InlineEnvironment()
    later: list[Callable[[], None]] = []
    environment.run_later = lambda work, done: later.append(work)
    log = open_log(tmp_path / "topic-0", environment=environment)
    now = ManualClock().now_ms
    for sequence in range(2):
        batch = make_batch(
            producer_id=5, producer_epoch=0, base_sequence=sequence, timestamps=(now,)
        )
        log.producers.record_append(5, 0, sequence, sequence, sequence, sequence, now)
        append(log, batch, epoch=0)
    log.roll()
    log.truncate_to(1)
    for work in later:
        work()
    append(log, make_batch(), make_batch(), make_batch(), epoch=1)
    log.truncate_to(3)
    assert log.producers.check(5, 0, 1, 1) == ACCEPT
    assert log.producers.check(5, 0, 0, 0) == 0


@pytest.mark.parametrize("batch", [0, 3])
def test_an_append_that_meets_damage_goes_on_in_a_new_segment(tmp_path: Path, batch: int) -> None:
    """A leader's log used to fail for it, and the partition with it."""
    log = open_log(tmp_path / "topic-0")
    for number in range(4):
        append(log, make_batch(timestamps=(1000 + number,)), epoch=0)
    log.close(clean=True)
    log = open_log(tmp_path / "topic-0", clean=True, recovery_point=4)
    with Path(log.active_segment.file).open("r+b") as file:
        file.seek(batch * log.active_segment.size // 4 + 16)
        file.write(b"\xff")
    assert append(log, make_batch(), make_batch(), epoch=0) == [4, 5]
    assert [segment.base_offset for segment in log.segments] == [0, 4]
    assert log.lost == ((batch, 4),)
    found = log.read(4, 1 << 20, end_offset=6)
    assert [header.base_offset for header in headers_in(slice_bytes(found))] == [4, 5]
    log.close(clean=True)
