"""Truncation, deletion, retention; the model test in tests/property does the rest."""

import errno
import shutil
from pathlib import Path
from typing import ClassVar

import pytest

from highwater.partition.core.producers import ACCEPT
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.errors import (
    LogDirFailure,
)
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.environment import InlineEnvironment
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.recovery.producer_recovery import encode_recent
from tests.support.log_batches import (
    ManualClock,
    append,
    make_batch,
    open_log,
    read_all,
)


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LogDirFailure):
        open_log(tmp_path / "file" / "topic-0")


def test_delete_renames_and_then_removes(tmp_path: Path) -> None:
    class Later(InlineEnvironment):
        removed: ClassVar[list[tuple[str, int]]] = []

        def delete_later(self, paths: list[str], delay_ms: int) -> None:
            self.removed += [(path, delay_ms) for path in paths]

    environment = Later()
    log = open_log(tmp_path / "topic-0", environment=environment)
    append(log, make_batch(), epoch=0)
    log.delete("0123456789abcdef0123456789abcdef")
    target = tmp_path / "topic-0.0123456789abcdef0123456789abcdef-delete"
    assert target.is_dir()
    assert not (tmp_path / "topic-0").exists()
    assert environment.removed == [(str(target), 60_000)]


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
    assert log.active_segment.size < 75
    log.high_watermark = 5
    log.apply_retention()
    assert [segment.base_offset for segment in log.segments] == left
    assert log.log_start_offset == left[0]
    assert log.apply_retention() == 0


def test_retention_never_takes_what_is_not_committed(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(retention_ms=1), clock=ManualClock(10**6))
    for _ in range(4):
        append(log, make_batch(), epoch=0)
        log.roll()
    log.high_watermark = 2
    assert log.apply_retention() == 2
    assert log.log_start_offset == 2


def test_retention_counts_from_the_largest_timestamp(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(retention_ms=1000), clock=ManualClock(10_000))
    append(log, make_batch(timestamps=(9500,)), make_batch(timestamps=(1,)), epoch=0)
    log.roll()
    append(log, make_batch(timestamps=(9900,)))
    log.high_watermark = 3
    assert log.apply_retention() == 0


def test_reconfigure_holds_from_the_next_append(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(), make_batch(), epoch=0)
    log.reconfigure(LogConfig(segment_bytes=log.size_bytes, flush_messages=1))
    assert log.flush_at_offset == 1
    append(log, make_batch())
    assert len(log.segments) == 2


def test_expired_producers_are_forgotten(tmp_path: Path) -> None:
    clock = ManualClock(10_000)
    log = open_log(tmp_path / "topic-0", LogConfig(producer_id_expiration_ms=100), clock=clock)
    batch = make_batch(producer_id=5, producer_epoch=0, base_sequence=0, timestamps=(10_000,))
    append(log, batch, epoch=0)
    assert list(log.expire_producers()) == [0]
    clock.now_ms += 100
    assert list(log.expire_producers()) == [1]


def test_every_interrupted_prefix_of_a_truncation_recovers(tmp_path: Path) -> None:
    """Truncation touches many files; a crash after any step leaves a log that opens."""
    source = tmp_path / "source"
    log = open_log(source, LogConfig(segment_bytes=300, index_interval_bytes=50))
    for number in range(20):
        append(log, make_batch(timestamps=(number,)), epoch=number // 6)
    log.close(clean=True)
    steps = 0
    while True:
        directory = tmp_path / f"topic-{steps}"
        shutil.copytree(source, directory)
        filesystem = FileSystem()
        counter = [steps]
        for name in ("rename", "ftruncate", "unlink", "pwritev"):
            setattr(filesystem, name, _dies_after(counter, getattr(filesystem, name)))
        log = PartitionLog.open(
            directory,
            topic="topic",
            partition=0,
            config=LogConfig(segment_bytes=300, index_interval_bytes=50),
            clock=ManualClock(),
            environment=InlineEnvironment(filesystem),
            clean=True,
        )
        try:
            log.truncate_to(7)
        except LogDirFailure:
            finished = False
        else:
            finished = True
        again = open_log(directory, LogConfig(segment_bytes=300, index_interval_bytes=50))
        headers = read_all(again)
        assert [h.base_offset for h in headers] == list(range(len(headers)))
        assert len(headers) == 7 if finished else 7 <= len(headers) <= 20
        if finished:
            break
        steps += 1
    assert steps > 5


def _dies_after(counter: list[int], function: object) -> object:
    def dying(*args: object) -> object:
        if counter[0] <= 0:
            raise OSError(errno.EIO, "dead")
        counter[0] -= 1
        return function(*args)

    return dying


def test_truncation_at_the_end_forgets_an_epoch_that_holds_nothing(tmp_path):
    log = open_log(tmp_path / "topic-0", LogConfig())
    append(log, make_batch(), epoch=3)
    end = log.log_end_offset
    log.assign_epoch(4, end)
    assert log.epochs.entries() == [(3, 0), (4, end)]
    assert log.truncate_to(end) == end
    assert log.epochs.entries() == [(3, 0)]
    log.close(clean=False)
    assert open_log(tmp_path / "topic-0", LogConfig()).epochs.entries() == [(3, 0)]


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_begins_anew_knows_no_producer(tmp_path: Path, clean: bool) -> None:
    """Its second batch may be in no other log, and must not be taken for a duplicate."""
    log = open_log(tmp_path / "topic-0")
    now = ManualClock().now_ms
    for sequence in range(2):
        batch = make_batch(
            producer_id=5, producer_epoch=0, base_sequence=sequence, timestamps=(now,)
        )
        log.producers.record_append(5, 0, sequence, sequence, 0, now)
        append(log, batch, epoch=0)
    if clean:
        log.close(clean=True)
        log = open_log(tmp_path / "topic-0", clean=True)
    else:
        recent = tmp_path / "topic-0" / ".highwater_producers"
        recent.write_bytes(encode_recent(2, log.producers.packed()))
    assert log.producers.check(5, 0, 1, 1) == 1
    log.truncate_fully_and_start_at(10)
    assert log.producers.check(5, 0, 1, 1) == ACCEPT
    assert not list((tmp_path / "topic-0").glob("*.snapshot"))
