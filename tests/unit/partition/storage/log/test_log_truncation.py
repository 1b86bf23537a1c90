"""Truncating a log; the model test in tests/property covers more."""

import errno
import shutil
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
from highwater.partition.storage.recovery.producer_recovery import encode_recent
from tests.support.log_batches import (
    ManualClock,
    append,
    make_batch,
    open_log,
    read_all,
)


def test_every_interrupted_prefix_of_a_truncation_recovers(tmp_path: Path) -> None:
    """Truncation changes many files; a crash after any step leaves a log that opens."""
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


def test_truncation_at_the_log_end_removes_an_epoch_without_records(tmp_path):
    log = open_log(tmp_path / "topic-0", LogConfig())
    append(log, make_batch(), epoch=3)
    end = log.log_end_offset
    log.epochs.assign(4, end)
    assert log.epochs.cache.entries() == [(3, 0), (4, end)]
    assert log.truncate_to(end) == end
    assert log.epochs.cache.entries() == [(3, 0)]
    log.close(clean=False)
    assert open_log(tmp_path / "topic-0", LogConfig()).epochs.cache.entries() == [(3, 0)]


@pytest.mark.parametrize("clean", [True, False])
def test_an_emptied_log_has_no_producers(tmp_path: Path, clean: bool) -> None:
    """The producer's second batch may be in no other log; it must not count as a duplicate."""
    log = open_log(tmp_path / "topic-0")
    now = ManualClock().now_ms
    for sequence in range(2):
        batch = make_batch(
            producer_id=5, producer_epoch=0, base_sequence=sequence, timestamps=(now,)
        )
        log.producers.states.record_append(5, 0, sequence, sequence, 0, now)
        append(log, batch, epoch=0)
    if clean:
        log.close(clean=True)
        log = open_log(tmp_path / "topic-0", clean=True)
    else:
        recent = tmp_path / "topic-0" / ".highwater_producers"
        recent.write_bytes(encode_recent(2, log.producers.states.packed()))
    assert log.producers.states.check(5, 0, 1, 1) == 1
    log.truncate_fully_and_start_at(10)
    assert log.producers.states.check(5, 0, 1, 1) == ACCEPT
    assert not list((tmp_path / "topic-0").glob("*.snapshot"))


def test_the_stored_high_watermark_stays_in_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", high_watermark=9)
    assert log.stored_high_watermark == 0, "the checkpoint may name records that are gone"
    append(log, make_batch(), make_batch(), make_batch())
    log.stored_high_watermark = 3
    log.truncate_to(2)
    assert log.stored_high_watermark == 2
    log.truncate_fully_and_start_at(7)
    assert log.stored_high_watermark == 7
    log.close(clean=False)
