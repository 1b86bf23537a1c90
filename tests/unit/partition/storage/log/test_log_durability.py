"""What is on disk for certain."""

import errno
import os
from pathlib import Path

import pytest

from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.errors import (
    LogDirFailure,
)
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.environment import InlineEnvironment
from highwater.partition.storage.log.log_durability import (
    PRODUCERS_ENTRIES,
    TAIL_BYTES,
    TAIL_ENTRIES,
)
from highwater.partition.storage.names import DAMAGE
from tests.support.log_batches import (
    ManualClock,
    append,
    make_batch,
    open_log,
)
from tests.support.losing_disk import LosingFileSystem


def test_flush_messages_and_the_recovery_point(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(flush_messages=3))
    assert log.flush_at_offset == 3
    append(log, make_batch(timestamps=(1, 2, 3)), epoch=0)
    job = log.begin_flush()
    assert job is not None
    append(log, make_batch())
    job.run()
    log.complete_flush(job)
    assert (log.recovery_point, log.flush_at_offset) == (3, 6)
    assert log.begin_flush(3) is None
    log.flush()
    assert log.recovery_point == 4


def test_a_flush_that_was_overtaken_by_a_truncation_proves_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(), make_batch(), epoch=0)
    job = log.begin_flush()
    assert job is not None
    log.truncate_to(1)
    append(log, make_batch(), make_batch())
    job.run()
    log.complete_flush(job)
    assert log.recovery_point == 0


def test_a_failed_sync_is_a_failed_directory(tmp_path: Path) -> None:
    filesystem = FileSystem()
    log = open_log(tmp_path / "topic-0", environment=InlineEnvironment(filesystem))
    append(log, make_batch(), epoch=0)

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    filesystem.fdatasync = fail
    with pytest.raises(LogDirFailure):
        log.flush()
    assert log.recovery_point == 0


@pytest.mark.parametrize("ending", ["flush", "roll", "clean"])
def test_an_epoch_below_the_recovery_point_survives_a_power_cut(
    tmp_path: Path, ending: str
) -> None:
    """Nobody looks for it in the batches again: its checkpoint is synced before."""
    directory = tmp_path / "topic-0"
    disk = LosingFileSystem(directory)
    log = open_log(directory, environment=InlineEnvironment(disk))
    append(log, make_batch(), epoch=0)
    log.flush()
    append(log, make_batch(), make_batch(), epoch=3)
    append(log, make_batch(), epoch=7)
    if ending == "clean":
        log.close(clean=True)
    else:
        log.flush() if ending == "flush" else log.roll()
        log.close(clean=False)
    recovery_point = log.recovery_point
    assert recovery_point == 4
    disk.cut_power()
    again = open_log(directory, recovery_point=recovery_point, clean=ending == "clean")
    assert again.log_end_offset == 4
    assert again.epochs.entries() == [(0, 0), (3, 1), (7, 3)]
    again.close(clean=False)


def test_epochs_that_were_cut_stay_cut_after_a_clean_end(tmp_path: Path) -> None:
    """The log is synced before; only the epochs have changed since."""
    directory = tmp_path / "topic-0"
    disk = LosingFileSystem(directory)
    log = open_log(directory, environment=InlineEnvironment(disk))
    append(log, make_batch(), epoch=0)
    append(log, make_batch(), epoch=4)
    log.flush()
    log.truncate_to(1)
    log.close(clean=True)
    disk.cut_power()
    again = open_log(directory, recovery_point=1, clean=True)
    assert again.epochs.entries() == [(0, 0)]
    again.close(clean=False)


def test_the_disk_of_these_tests_loses_what_was_not_synced(tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    disk = LosingFileSystem(directory)
    log = open_log(directory, environment=InlineEnvironment(disk))
    append(log, make_batch(), epoch=0)
    log.flush()
    append(log, make_batch(), epoch=1)
    log.close(clean=False)
    disk.cut_power()
    again = open_log(directory, recovery_point=1)
    assert (again.log_end_offset, again.epochs.entries()) == (1, [(0, 0)])
    again.close(clean=False)


def test_a_segment_that_was_cut_off_does_not_come_back_below_the_recovery_point(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "topic-0"
    disk = LosingFileSystem(directory)
    log = open_log(directory, environment=InlineEnvironment(disk))
    append(log, make_batch(), make_batch(), make_batch(), epoch=0)
    log.roll()
    append(log, make_batch(), make_batch())
    log.flush()
    log.truncate_to(1)
    append(log, *[make_batch(value=b"new") for _ in range(5)])
    log.flush()
    assert log.recovery_point == 6
    log.close(clean=False)
    disk.cut_power()
    log = open_log(directory, recovery_point=6)
    assert (log.log_end_offset, len(log.segments)) == (6, 1)
    log.close(clean=False)


def test_the_tail_that_a_start_reads_is_kept_short(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(index_interval_bytes=100))
    recent = tmp_path / "topic-0" / ".highwater_producers"
    index = tmp_path / "topic-0" / f"{0:020d}.index"
    sequence = 0
    while log.active_segment.index.waiting < TAIL_ENTRIES:
        log.shorten_tail()
        assert not index.exists()
        append(
            log,
            make_batch(producer_id=1, producer_epoch=0, base_sequence=sequence, value=b"x" * 50),
            epoch=0,
        )
        sequence += 1
    log.shorten_tail()
    assert index.stat().st_size == TAIL_ENTRIES * 8
    assert not recent.exists()
    while len(log.active_segment.index) < PRODUCERS_ENTRIES:
        append(
            log,
            make_batch(producer_id=1, producer_epoch=0, base_sequence=sequence, value=b"x" * 50),
        )
        sequence += 1
    log.shorten_tail()
    written = recent.stat().st_mtime_ns
    log.shorten_tail()
    assert recent.stat().st_mtime_ns == written
    append(log, make_batch(value=b"x" * TAIL_BYTES))
    append(log, make_batch(value=b"x" * TAIL_BYTES))
    log.shorten_tail()
    assert log.active_segment.index.waiting == 0
    log.close(clean=False)
    # Not after anything but a kill: what it tells of may be lost.
    open_log(tmp_path / "topic-0").close(clean=False)
    assert not recent.exists()


def test_a_truncation_finds_producers_of_committed_records(tmp_path: Path) -> None:
    """A leader that nobody followed any more wrote on for seconds: the loop does not read headers
    from the segment's beginning for that.
    """
    disk = FileSystem()
    log = open_log(
        tmp_path / "topic-0",
        LogConfig(index_interval_bytes=100),
        environment=InlineEnvironment(disk),
        clock=ManualClock(1000),
    )
    sequence = 0

    def grow() -> None:
        nonlocal sequence
        wanted = len(log.active_segment.index) + PRODUCERS_ENTRIES
        while len(log.active_segment.index) < wanted:
            batch = make_batch(
                timestamps=(sequence,), producer_id=1, producer_epoch=0, base_sequence=sequence
            )
            append(log, batch, epoch=0)
            sequence += 1
        log.shorten_tail()

    for _ in range(2):
        grow()
        log.high_watermark = log.log_end_offset
    committed = log.active_segment.size
    for _ in range(3):
        grow()
    read: list[int] = []

    def pread(fd: int, nbytes: int, position: int) -> bytes:
        if Path(f"/proc/self/fd/{fd}").readlink().suffix == ".log":
            read.append(position)
        return os.pread(fd, nbytes, position)

    disk.pread = pread
    end = log.truncate_to(log.high_watermark + 1)
    assert end == log.high_watermark + 1
    assert min(read) > committed // 2
    [producer] = log.producers.entries()
    assert (producer.last_offset, producer.last_sequence) == (end - 1, end - 1)
    assert log.producers.check(1, 0, end - 5, end - 5) == end - 5
    log.close(clean=False)
    for intact in (True, False):
        log = open_log(tmp_path / "topic-0", clock=ManualClock(1000), cache_intact=intact)
        assert log.log_end_offset == end
        [producer] = log.producers.entries()
        assert producer.last_sequence == end - 1
        log.close(clean=False)
    assert not list((tmp_path / "topic-0").glob(".highwater_producers*"))


def test_what_is_healed_is_not_noted_any_more(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, *[make_batch() for _ in range(10)], epoch=0)
    log.note_damage(2, 5)
    log.note_damage(7, 9)
    log.note_healed(3, 8)
    assert log.lost == ((2, 3), (8, 9))
    log.close(clean=True)
    log = open_log(tmp_path / "topic-0", clean=True, recovery_point=10)
    assert log.lost == ((2, 3), (8, 9))
    log.note_healed(0, 10)
    assert log.lost == ()
    assert not (tmp_path / "topic-0" / DAMAGE).exists()
    log.close(clean=True)
