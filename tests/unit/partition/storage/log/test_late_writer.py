"""Appends on the writer thread of a stalled directory; the test plays the thread."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.kafka.records.batch import read_header, set_base_offset_and_epoch
from highwater.partition.core.producers import ACCEPT
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.log import late_writer, log_writer
from highwater.partition.storage.log.environment import InlineEnvironment
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.log.producer_tail import ENTRIES_MIN
from highwater.partition.storage.log.stall import FAST_WRITES_TO_RECOVER
from tests.support.log_batches import (
    ManualClock,
    append,
    append_info,
    make_batch,
    open_log,
    read_all,
    write_with,
)
from tests.support.searches import found_by


def test_a_slow_write_stalls_the_directory_and_fast_ones_end_the_stall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0.0, 0.010, 0.0, 0.051])
    monkeypatch.setattr(log_writer, "monotonic", lambda: next(times))
    monkeypatch.setattr(late_writer, "monotonic", lambda: 0.0)
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(), epoch=0)
    assert not log.stall.stalled
    append(log, make_batch())
    assert log.stall.stalled
    for number in range(FAST_WRITES_TO_RECOVER):
        assert log.stall.stalled
        append_later(log, make_batch(timestamps=(number,)))
    assert not log.stall.stalled
    assert len(read_all(log)) == 2 + FAST_WRITES_TO_RECOVER
    assert found_by(log.search.first_with_largest())[:2] == (1000, 0)


def append_later(log: PartitionLog, batch: bytearray, *, epoch: int | None = None) -> list[int]:
    offset = log.log_end_offset
    set_base_offset_and_epoch(batch, 0, offset, log.epochs.cache.latest)
    timestamp = read_header(batch).max_timestamp
    done: list[int] = []
    info = append_info(
        [batch],
        [offset],
        next_offset=offset + 1,
        max_timestamp=(timestamp, offset),
        epoch=log.epochs.cache.latest if epoch is None else epoch,
    )
    assert log.late_writer.append(info, lambda: done.append(offset))
    return done


class Threads(InlineEnvironment):
    """Writes wait until the test calls `finish`."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[tuple[Callable[[], None], Callable[[], None]]] = []

    def write_later(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        self.jobs.append((work, done))

    def finish(self) -> None:
        work, done = self.jobs.pop(0)
        work()
        done()


def test_a_late_append_is_in_the_log_only_when_it_is_written(tmp_path: Path) -> None:
    environment = Threads()
    log = open_log(tmp_path / "topic-0", environment=environment)
    append(log, make_batch(), epoch=0)
    done = append_later(log, make_batch(timestamps=(2000,)))
    assert (log.late_writer.writing, log.log_end_offset, done) == (True, 1, [])
    assert len(read_all(log)) == 1
    with pytest.raises(AssertionError):
        append_later(log, make_batch())
    environment.finish()
    assert (log.late_writer.writing, log.log_end_offset, done) == (False, 2, [1])
    assert found_by(log.search.first_with_largest())[:2] == (2000, 1)
    append(log, make_batch())
    assert len(read_all(log)) == 3


def test_a_log_is_deleted_during_a_late_write(tmp_path: Path) -> None:
    environment = Threads()
    log = open_log(tmp_path / "topic-0", environment=environment)
    append(log, make_batch(), epoch=0)
    done = append_later(log, make_batch())
    segment = log.extent.active
    log.closing.delete("0" * 32)
    environment.finish()
    assert done == []
    assert segment.fd < 0


def test_a_late_append_that_needs_a_roll_rolls_first(tmp_path: Path) -> None:
    environment = Threads()
    batch = make_batch(producer_id=5, producer_epoch=0, base_sequence=0, timestamps=(1000,))
    log = open_log(
        tmp_path / "topic-0", LogConfig(segment_bytes=len(batch)), environment=environment
    )
    append(log, batch, epoch=0)
    done = append_later(log, make_batch(), epoch=1)
    assert (log.late_writer.writing, len(log.extent.all), log.log_end_offset) == (True, 2, 1)
    assert log.epochs.cache.latest == 1
    environment.finish()
    assert done == [1]
    assert log.log_end_offset == 2
    assert (tmp_path / "topic-0" / "00000000000000000002.snapshot").exists()
    done = append_later(log, make_batch())
    environment.finish()
    assert [segment.base_offset for segment in log.extent.all] == [0, 1, 2]
    assert len(read_all(log)) == 3


def test_the_first_write_of_a_segment_may_be_a_late_one(tmp_path: Path) -> None:
    environment = Threads()
    log = open_log(tmp_path / "topic-0", environment=environment)
    done = append_later(log, make_batch(timestamps=(2000,)), epoch=0)
    environment.finish()
    assert done == [0]
    assert log.extent.active.first_timestamp == 2000
    append(log, make_batch(timestamps=(3000,)))
    log.close(clean=True)
    assert len(read_all(open_log(tmp_path / "topic-0", clean=True))) == 2


def test_a_group_across_the_end_of_a_segment_is_written_at_once(tmp_path: Path) -> None:
    environment = Threads()
    batches = [make_batch(base_offset=number) for number in range(3)]
    size = len(batches[0])
    log = open_log(tmp_path / "topic-0", LogConfig(segment_bytes=2 * size), environment=environment)
    done: list[int] = []
    info = append_info(batches, [0, 1, 2], next_offset=3, max_timestamp=(1000, 0), epoch=0)
    under_way = log.late_writer.append(info, lambda: done.append(1))
    assert (under_way, log.late_writer.writing, done) == (False, False, [])
    assert log.log_end_offset == 3
    assert len(log.extent.all) == 2
    assert len(read_all(log)) == 3


def test_a_log_is_closed_during_a_late_write(tmp_path: Path) -> None:
    environment = Threads()
    log = open_log(tmp_path / "topic-0", environment=environment)
    append(log, make_batch(), epoch=0)
    done = append_later(log, make_batch())
    segment = log.extent.active
    with pytest.raises(AssertionError):
        log.close(clean=True)
    log.close(clean=False)
    assert segment.fd >= 0, "the thread writes to it"
    environment.finish()
    assert (done, log.log_end_offset, segment.fd) == ([], 1, -1)
    assert len(read_all(open_log(tmp_path / "topic-0"))) == 2


def test_retention_deletes_nothing_during_a_late_write(tmp_path: Path) -> None:
    environment = Threads()
    log = open_log(tmp_path / "topic-0", LogConfig(retention_ms=0), environment=environment)
    append(log, make_batch(), epoch=0)
    log.stored_high_watermark = 1
    append_later(log, make_batch())
    assert log.apply_retention() == 0
    environment.finish()
    log.stored_high_watermark = 2
    assert log.apply_retention() == 1


def test_producer_states_ahead_of_the_log_are_not_written(tmp_path: Path) -> None:
    """Fast writes to another log have ended the directory's stall before this log's write ran."""
    environment, clock = Threads(), ManualClock(1000)
    config = LogConfig(index_interval_bytes=50)
    log = open_log(tmp_path / "topic-0", config, environment=environment, clock=clock)
    while len(log.extent.active.index) < ENTRIES_MIN:
        append(log, make_batch(), epoch=0)
    log.producers.states.record_append(7, 0, 0, log.log_end_offset, 0, 1000)
    append_later(log, make_batch(producer_id=7, producer_epoch=0, base_sequence=0))
    log.shorten_tail()
    log.close(clean=False)
    again = open_log(tmp_path / "topic-0", clock=clock, cache_intact=True)
    assert again.producers.states.check(7, 0, 0, 0) == ACCEPT, "not taken for a duplicate"
    again.close(clean=False)


def test_a_failed_late_append_fails_the_directory(tmp_path: Path) -> None:
    environment = Threads()
    log = open_log(tmp_path / "topic-0", environment=environment)
    append(log, make_batch(), epoch=0)

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    write_with(log, fail)
    append_later(log, make_batch())
    with pytest.raises(LogDirFailure):
        environment.finish()
    assert log.log_end_offset == 1


def test_a_log_that_is_held_is_left_alone(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(), make_batch(), epoch=0)
    log.late_writer.hold()
    with pytest.raises(AssertionError):
        log.late_writer.hold()
    with pytest.raises(AssertionError):
        log.truncate_to(1)
    with pytest.raises(AssertionError):
        log.roll()
    assert log.apply_retention() == 0
    assert len(read_all(log)) == 2
    log.late_writer.release()
    assert log.truncate_to(1) == 1
    with pytest.raises(AssertionError):
        log.late_writer.release()
