"""Deleting records at the start of a log."""

from pathlib import Path

import pytest

from highwater.partition.storage.config import LogConfig
from tests.support.log_batches import (
    ManualClock,
    append,
    make_batch,
    open_log,
)


@pytest.mark.parametrize(
    ("config", "left"),
    [
        (LogConfig(retention_ms=1000), [4]),
        (LogConfig(retention_ms=-1), [0, 1, 2, 3, 4]),
        (LogConfig(retention_ms=-1, retention_bytes=150), [2, 3, 4]),
        (LogConfig(retention_ms=-1, retention_bytes=0), [5]),
        (LogConfig(retention_ms=1), [5]),
        (LogConfig(retention_ms=1, delete_policy=False), [0, 1, 2, 3, 4]),
    ],
)
def test_retention_by_time_and_size(tmp_path: Path, config: LogConfig, left: list[int]) -> None:
    clock = ManualClock(10_000)
    log = open_log(tmp_path / "topic-0", config, clock=clock)
    for number in range(5):
        append(log, make_batch(timestamps=(8000 + 333 * number,)), epoch=0)
        if number < 4:
            log.roll()
    assert log.extent.active.size < 75
    log.stored_high_watermark = 5
    log.apply_retention()
    assert [segment.base_offset for segment in log.extent.all] == left
    assert log.log_start_offset == left[0]
    assert log.apply_retention() == 0


def test_retention_never_deletes_uncommitted_records(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(retention_ms=1), clock=ManualClock(10**6))
    for _ in range(4):
        append(log, make_batch(), epoch=0)
        log.roll()
    log.stored_high_watermark = 2
    assert log.apply_retention() == 2
    assert log.log_start_offset == 2


def test_retention_counts_from_the_largest_timestamp(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(retention_ms=1000), clock=ManualClock(10_000))
    append(log, make_batch(timestamps=(9500,)), make_batch(timestamps=(1,)), epoch=0)
    log.roll()
    append(log, make_batch(timestamps=(9900,)))
    log.stored_high_watermark = 3
    assert log.apply_retention() == 0


def test_segments_before_the_start_wait_for_retention_while_the_disk_is_behind(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(retention_ms=-1, delete_policy=False))
    append(log, make_batch(), epoch=0)
    log.roll()
    append(log, make_batch(), epoch=0)
    log.stored_high_watermark = 2
    log.deletion.advance_start(1, remove=False)
    assert [segment.base_offset for segment in log.extent.all] == [0, 1]
    assert log.log_start_offset == 1
    assert log.apply_retention() == 1
    assert [segment.base_offset for segment in log.extent.all] == [1]
