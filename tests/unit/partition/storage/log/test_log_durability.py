"""The part of a log that is surely on disk."""

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
from highwater.partition.storage.names import DAMAGE
from tests.support.log_batches import (
    append,
    make_batch,
    open_log,
)
from tests.support.losing_disk import LosingFileSystem


def test_flush_messages_and_the_recovery_point(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(flush_messages=3))
    assert log.durability.flush_at_offset == 3
    append(log, make_batch(timestamps=(1, 2, 3)), epoch=0)
    job = log.durability.begin_flush()
    assert job is not None
    append(log, make_batch())
    job.run()
    log.durability.complete_flush(job)
    assert (log.durability.recovery_point, log.durability.flush_at_offset) == (3, 6)
    assert log.durability.begin_flush(3) is None
    log.durability.flush()
    assert log.durability.recovery_point == 4


def test_a_flush_from_before_a_truncation_does_not_move_the_recovery_point(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(), make_batch(), epoch=0)
    job = log.durability.begin_flush()
    assert job is not None
    log.truncate_to(1)
    append(log, make_batch(), make_batch())
    job.run()
    log.durability.complete_flush(job)
    assert log.durability.recovery_point == 0


def test_a_failed_sync_fails_the_directory(tmp_path: Path) -> None:
    filesystem = FileSystem()
    log = open_log(tmp_path / "topic-0", environment=InlineEnvironment(filesystem))
    append(log, make_batch(), epoch=0)

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    filesystem.fdatasync = fail
    with pytest.raises(LogDirFailure):
        log.durability.flush()
    assert log.durability.recovery_point == 0


def test_the_disk_of_these_tests_loses_what_was_not_synced(tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    disk = LosingFileSystem(directory)
    log = open_log(directory, environment=InlineEnvironment(disk))
    append(log, make_batch(), epoch=0)
    log.durability.flush()
    append(log, make_batch(), epoch=1)
    log.close(clean=False)
    disk.cut_power()
    again = open_log(directory, recovery_point=1)
    assert (again.log_end_offset, again.epochs.cache.entries()) == (1, [(0, 0)])
    again.close(clean=False)


def test_a_truncated_segment_does_not_return_below_the_recovery_point(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "topic-0"
    disk = LosingFileSystem(directory)
    log = open_log(directory, environment=InlineEnvironment(disk))
    append(log, make_batch(), make_batch(), make_batch(), epoch=0)
    log.roll()
    append(log, make_batch(), make_batch())
    log.durability.flush()
    log.truncate_to(1)
    append(log, *[make_batch(value=b"new") for _ in range(5)])
    log.durability.flush()
    assert log.durability.recovery_point == 6
    log.close(clean=False)
    disk.cut_power()
    log = open_log(directory, recovery_point=6)
    assert (log.log_end_offset, len(log.extent.all)) == (6, 1)
    log.close(clean=False)


def test_repaired_ranges_are_no_longer_listed_as_lost(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, *[make_batch() for _ in range(10)], epoch=0)
    log.lost.add(2, 5)
    log.lost.add(7, 9)
    log.lost.healed(3, 8)
    assert log.lost.ranges == ((2, 3), (8, 9))
    log.close(clean=True)
    log = open_log(tmp_path / "topic-0", clean=True, recovery_point=10)
    assert log.lost.ranges == ((2, 3), (8, 9))
    log.lost.healed(0, 10)
    assert log.lost.ranges == ()
    assert not (tmp_path / "topic-0" / DAMAGE).exists()
    log.close(clean=True)
