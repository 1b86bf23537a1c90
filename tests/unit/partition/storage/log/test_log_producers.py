"""A log's producer states and their snapshots."""

import os
from collections.abc import Callable
from pathlib import Path

from highwater.partition.core.producers import ACCEPT
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.environment import InlineEnvironment
from highwater.partition.storage.log.producer_tail import ENTRIES_MIN
from tests.support.log_batches import (
    ManualClock,
    append,
    make_batch,
    open_log,
)


def test_expired_producers_are_removed(tmp_path: Path) -> None:
    clock = ManualClock(10_000)
    log = open_log(tmp_path / "topic-0", LogConfig(producer_id_expiration_ms=100), clock=clock)
    batch = make_batch(producer_id=5, producer_epoch=0, base_sequence=0, timestamps=(10_000,))
    append(log, batch, epoch=0)
    assert list(log.producers.expire()) == [0]
    clock.now_ms += 100
    assert list(log.producers.expire()) == [1]


def test_a_truncation_starts_from_the_producers_of_committed_records(tmp_path: Path) -> None:
    """A leader without followers wrote on for seconds. When it truncates, it must not read headers
    from the segment's beginning on the loop.
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
        wanted = len(log.extent.active.index) + ENTRIES_MIN
        while len(log.extent.active.index) < wanted:
            batch = make_batch(
                timestamps=(sequence,), producer_id=1, producer_epoch=0, base_sequence=sequence
            )
            append(log, batch, epoch=0)
            sequence += 1
        log.shorten_tail()

    for _ in range(2):
        grow()
        log.stored_high_watermark = log.log_end_offset
    committed = log.extent.active.size
    for _ in range(3):
        grow()
    read: list[int] = []

    def pread(fd: int, nbytes: int, position: int) -> bytes:
        if Path(f"/proc/self/fd/{fd}").readlink().suffix == ".log":
            read.append(position)
        return os.pread(fd, nbytes, position)

    disk.pread = pread
    end = log.truncate_to(log.stored_high_watermark + 1)
    assert end == log.stored_high_watermark + 1
    assert min(read) > committed // 2
    [producer] = log.producers.states.entries()
    assert (producer.last_offset, producer.last_sequence) == (end - 1, end - 1)
    assert log.producers.states.check(1, 0, end - 5, end - 5) == end - 5
    log.close(clean=False)
    for intact in (True, False):
        log = open_log(tmp_path / "topic-0", clock=ManualClock(1000), cache_intact=intact)
        assert log.log_end_offset == end
        [producer] = log.producers.states.entries()
        assert producer.last_sequence == end - 1
        log.close(clean=False)
    assert not list((tmp_path / "topic-0").glob(".highwater_producers*"))


def test_a_log_keeps_few_producer_snapshots(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    for _ in range(12):
        append(log, make_batch(), epoch=0)
        log.roll()
    assert len(list((tmp_path / "topic-0").glob("*.snapshot"))) == 5


def test_a_late_snapshot_of_a_deleted_log_leaves_no_file(tmp_path: Path) -> None:
    environment = InlineEnvironment()
    later: list[Callable[[], None]] = []
    environment.run_later = lambda work, done: later.append(work)
    log = open_log(tmp_path / "topic-0", environment=environment)
    append(log, make_batch(), epoch=0)
    log.roll()
    log.closing.delete("0" * 32)
    for work in later:
        work()
    assert list(tmp_path.iterdir()) == []


def test_a_late_snapshot_of_truncated_records_is_not_kept(tmp_path: Path) -> None:
    """The producer's second batch is in no log, so it must not be taken for a duplicate."""
    environment = InlineEnvironment()
    later: list[Callable[[], None]] = []
    environment.run_later = lambda work, done: later.append(work)
    log = open_log(tmp_path / "topic-0", environment=environment)
    now = ManualClock().now_ms
    for sequence in range(2):
        batch = make_batch(
            producer_id=5, producer_epoch=0, base_sequence=sequence, timestamps=(now,)
        )
        log.producers.states.record_append(5, 0, sequence, sequence, 0, now)
        append(log, batch, epoch=0)
    log.roll()
    log.truncate_to(1)
    for work in later:
        work()
    append(log, make_batch(), make_batch(), make_batch(), epoch=1)
    log.truncate_to(3)
    assert log.producers.states.check(5, 0, 1, 1) == ACCEPT
    assert log.producers.states.check(5, 0, 0, 0) == 0
