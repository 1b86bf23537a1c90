import errno
import os
from pathlib import Path

import pytest

from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.environment import InlineEnvironment
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.segment.preallocation import (
    CHUNK_BYTES,
    FAST_CHUNK_MS,
    GrowthMonitor,
)
from tests.support.log_batches import ManualClock, append, make_batch

BATCH = make_batch(value=b"x" * (1 << 20))


@pytest.fixture
def calls() -> list[tuple[int, int]]:
    return []


@pytest.fixture
def filesystem(calls: list[tuple[int, int]]) -> FileSystem:
    files = FileSystem()
    reserve = files.fallocate

    def counting(fd: int, mode: int, offset: int, length: int) -> None:
        calls.append((offset, length))
        reserve(fd, mode, offset, length)

    files.fallocate = counting
    return files


def open_log(
    directory: Path, filesystem: FileSystem, clock: ManualClock, *, preallocate: bool = False
) -> PartitionLog:
    return PartitionLog.open(
        directory,
        topic="topic",
        partition=0,
        config=LogConfig(segment_bytes=30 << 20, preallocate=preallocate),
        clock=clock,
        environment=InlineEnvironment(filesystem),
    )


def allocated(file: str) -> int:
    return Path(file).stat().st_blocks * 512


def test_a_fast_log_reserves_ahead_and_gives_the_rest_back(
    tmp_path: Path, filesystem: FileSystem, calls: list[tuple[int, int]]
) -> None:
    log = open_log(tmp_path / "topic-0", filesystem, ManualClock())
    for _ in range(9):
        append(log, BATCH, epoch=0)
    assert len(calls) == 1
    file = log.extent.active.file
    assert Path(file).stat().st_size == log.extent.size_bytes
    if not log.extent.active.preallocated:
        pytest.skip("the file system of the temporary directory cannot reserve space")
    assert allocated(file) > log.extent.size_bytes + (CHUNK_BYTES >> 1)
    for _ in range(12):
        append(log, BATCH, epoch=0)
    assert len(calls) == 2
    log.roll()
    assert allocated(file) < Path(file).stat().st_size + (1 << 16)
    assert log.extent.all[0].size == Path(file).stat().st_size


def test_a_slow_log_reserves_nothing(
    tmp_path: Path, filesystem: FileSystem, calls: list[tuple[int, int]]
) -> None:
    clock = ManualClock()
    log = open_log(tmp_path / "topic-0", filesystem, clock)
    for _ in range(20):
        clock.now_ms += FAST_CHUNK_MS // 4
        append(log, BATCH, epoch=0)
    assert calls == []


def test_never_beyond_the_segment(
    tmp_path: Path, filesystem: FileSystem, calls: list[tuple[int, int]]
) -> None:
    log = open_log(tmp_path / "topic-0", filesystem, ManualClock())
    for _ in range(80):
        append(log, BATCH, epoch=0)
    assert len(log.extent.all) == 3
    assert len(calls) > 5
    assert max(offset + length for offset, length in calls) <= 30 << 20


def test_an_unsupported_reservation_is_tried_once(tmp_path: Path) -> None:
    files = FileSystem()
    asked: list[int] = []

    def refuse(*_: int) -> None:
        asked.append(1)
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    files.fallocate = refuse
    log = open_log(tmp_path / "topic-0", files, ManualClock())
    for _ in range(40):
        append(log, BATCH, epoch=0)
    assert asked == [1]
    assert log.log_end_offset == 40


def test_the_topic_config_reserves_whole_segments(
    tmp_path: Path, filesystem: FileSystem, calls: list[tuple[int, int]]
) -> None:
    log = open_log(tmp_path / "topic-0", filesystem, ManualClock(), preallocate=True)
    append(log, make_batch(), epoch=0)
    assert calls == [(0, 30 << 20)]
    assert Path(log.extent.active.file).stat().st_size == log.extent.size_bytes


def test_recovery_gives_back_what_a_crash_left(
    tmp_path: Path, filesystem: FileSystem, calls: list[tuple[int, int]]
) -> None:
    log = open_log(tmp_path / "topic-0", filesystem, ManualClock(), preallocate=True)
    append(log, make_batch(), epoch=0)
    file = log.extent.active.file
    log.close(clean=False)
    open_log(tmp_path / "topic-0", filesystem, ManualClock())
    assert calls
    assert allocated(file) <= 1 << 16


def test_growth_monitor() -> None:
    monitor = GrowthMonitor(0)
    assert monitor.look_at == CHUNK_BYTES
    assert monitor.grown(CHUNK_BYTES + 5, FAST_CHUNK_MS - 1)
    assert monitor.look_at == 2 * CHUNK_BYTES + 5
    assert not monitor.grown(3 * CHUNK_BYTES, 2 * FAST_CHUNK_MS)
    monitor.rolled()
    assert monitor.look_at == CHUNK_BYTES
    monitor.enabled = False
    assert not monitor.grown(CHUNK_BYTES + 5, 2 * FAST_CHUNK_MS)
