from pathlib import Path

from highwater.partition.core.producers import ACCEPT, ProducerStates
from highwater.partition.storage import producer_snapshots
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.recovery.producer_recovery import (
    encode_recent,
    load_newest_snapshot,
    replay,
)
from tests.support.log_batches import ManualClock, append, make_batch, open_log
from tests.unit.partition.storage.directory.test_deletion_races import Waiting

FILES = FileSystem()


def snapshot(directory: Path, offset: int, producer_id: int) -> Path:
    states = ProducerStates()
    states.record_append(producer_id, 0, 0, offset - 1, 0, 1000)
    path = Path(producer_snapshots.snapshot_path(str(directory), offset))
    producer_snapshots.write(FILES, str(path), states.packed())
    return path


def load(directory: Path, limit: int | None, first: int = 0) -> tuple[list[int], int]:
    states = ProducerStates()
    states.record_append(99, 0, 0, 0, 0, 1000)
    offset = load_newest_snapshot(
        states, FILES, str(directory), limit=limit, now_ms=1000, expiration_ms=10, first=first
    )
    return [entry.producer_id for entry in states.entries()], offset


def test_the_newest_readable_snapshot_up_to_the_limit(tmp_path: Path) -> None:
    assert load(tmp_path, None) == ([], 0)
    for offset in (5, 9, 20):
        snapshot(tmp_path, offset, producer_id=offset)
    assert load(tmp_path, None) == ([20], 20)
    assert load(tmp_path, 20) == ([20], 20)
    assert load(tmp_path, None, first=20) == ([20], 20)
    assert load(tmp_path, None, first=21) == ([], 0)
    assert load(tmp_path, 19) == ([9], 9)
    assert not (tmp_path / "00000000000000000020.snapshot").exists()
    (tmp_path / "00000000000000000009.snapshot").write_bytes(b"torn")
    assert load(tmp_path, None) == ([5], 5)


def test_replay_takes_only_what_the_snapshot_does_not_cover(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(index_interval_bytes=50))
    for number in range(20):
        batch = make_batch(producer_id=number % 2, producer_epoch=0, base_sequence=number // 2)
        append(log, batch, epoch=0)
        if number == 7:
            log.roll()
    for start in (0, 3, 8, 15, 19, 20):
        states = ProducerStates()
        replay(FILES, log.extent.all, states, start=start, end=20)
        present = {entry.producer_id: entry.last_offset for entry in states.entries()}
        assert present == {n % 2: n for n in range(start, 20)}
    states = ProducerStates()
    replay(FILES, log.extent.all, states, start=0, end=20)
    assert states.check(0, 0, 10, 10) == ACCEPT
    assert states.check(1, 0, 5, 5) == 11


def test_producers_of_a_log_that_begins_again_are_unknown(tmp_path: Path) -> None:
    """The leader's log began after this one's end: batches in between were deleted."""
    log = open_log(tmp_path / "topic-0", clock=ManualClock(1000))
    for sequence in range(2):
        append(log, make_batch(producer_id=7, producer_epoch=0, base_sequence=sequence), epoch=0)
        log.roll()
    recent = tmp_path / "topic-0" / ".highwater_producers"
    recent.write_bytes(encode_recent(log.log_end_offset, log.producers.states.packed()))
    log.truncate_fully_and_start_at(100)
    assert log.producers.states.check(7, 0, 60, 60) == ACCEPT
    append(log, make_batch(producer_id=8, producer_epoch=0, base_sequence=0), epoch=1)
    for intact in (True, False):
        log.close(clean=False)
        log = open_log(tmp_path / "topic-0", clock=ManualClock(1000), cache_intact=intact)
        assert [entry.producer_id for entry in log.producers.states.entries()] == [8]
    log.close(clean=False)


def test_producers_of_a_log_that_was_deleted_up_to_its_end(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", clock=ManualClock(1000))
    append(log, make_batch(producer_id=7, producer_epoch=0, base_sequence=0), epoch=0)
    log.close(clean=False)
    log = open_log(tmp_path / "topic-0", clock=ManualClock(1000), log_start_offset=5)
    assert (log.log_end_offset, len(log.producers.states)) == (5, 0)
    log.close(clean=False)


def test_a_snapshot_that_a_truncation_overtakes(tmp_path: Path) -> None:
    """The worker is slow: it writes a snapshot of batches that are truncated by then."""
    environment = Waiting()
    log = open_log(tmp_path / "topic-0", environment=environment, clock=ManualClock(1000))
    append(log, make_batch(), make_batch(), epoch=0)
    append(log, make_batch(producer_id=7, producer_epoch=0, base_sequence=0))
    log.roll()
    log.truncate_to(2)
    append(log, make_batch(), make_batch(), epoch=1)
    while environment.run():
        continue
    assert len(log.producers.states) == 0
    log.close(clean=False)
    log = open_log(tmp_path / "topic-0", clock=ManualClock(1000))
    assert log.producers.states.check(7, 0, 0, 0) == ACCEPT, "not taken for a duplicate"
    log.close(clean=False)
