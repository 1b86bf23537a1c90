"""Another thread writes `.highwater_producers`; it is right whenever the process ends."""

import os
import shutil
import threading
from pathlib import Path

import pytest

from highwater.partition.core.producers import ACCEPT
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log import producer_tail
from highwater.partition.storage.log.log import PartitionLog
from tests.support.log_batches import ManualClock, append, make_batch, open_log
from tests.unit.partition.storage.directory.test_deletion_races import TOKEN, Waiting

RECENT = ".highwater_producers"
COMMITTED = ".highwater_producers_committed"
CONFIG = LogConfig(index_interval_bytes=50)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_tail, "ENTRIES_MIN", 3)


def opened(path: Path, environment: Waiting | None = None, **start: bool) -> PartitionLog:
    return open_log(path, CONFIG, environment=environment, clock=ManualClock(1000), **start)


def grow(log: PartitionLog, producer_id: int, sequences: range, epoch: int = 0) -> None:
    for sequence in sequences:
        batch = make_batch(
            timestamps=(1000,), producer_id=producer_id, producer_epoch=0, base_sequence=sequence
        )
        append(log, batch, epoch=epoch)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name.startswith(RECENT))


def killed(log: PartitionLog, directory: Path, aside: Path) -> PartitionLog:
    """The log as the next process opens it; the log of this process stays open."""
    shutil.copytree(directory, aside / "topic-0")
    return opened(aside / "topic-0", cache_intact=True)


def test_the_file_is_not_written_on_the_owners_thread(tmp_path: Path) -> None:
    """On that thread it took 9 ms per log every 2 s, with a thousand producers."""
    disk = FileSystem()
    threads: set[int] = set()

    def pwritev(*given: object) -> int:
        threads.add(threading.get_ident())
        return os.pwritev(*given)  # type: ignore[arg-type]

    environment = Waiting(disk)
    log = opened(tmp_path / "topic-0", environment)
    grow(log, 7, range(10))
    log.extent.active.index.flush()
    disk.pwritev = pwritev
    log.shorten_tail()
    [(work, done)] = environment.jobs
    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert threading.get_ident() not in threads
    assert len(threads) == 1
    assert names(tmp_path / "topic-0") == [f"{RECENT}.tmp"]
    done()
    assert names(tmp_path / "topic-0") == [RECENT]
    log.close(clean=False)


def test_the_file_describes_the_log_at_the_start_of_its_write(tmp_path: Path) -> None:
    environment = Waiting()
    log = opened(tmp_path / "topic-0", environment)
    grow(log, 7, range(10))
    log.shorten_tail()
    grow(log, 7, range(10, 12))
    grow(log, 8, range(1))
    environment.run()
    again = killed(log, tmp_path / "topic-0", tmp_path / "killed")
    assert sorted(again.producers.states.history(), key=repr) == sorted(
        log.producers.states.history(), key=repr
    )
    again.close(clean=False)
    log.close(clean=False)


@pytest.mark.parametrize("worked", [True, False])
def test_a_log_truncated_meanwhile_never_gets_the_file(tmp_path: Path, worked: bool) -> None:
    """Not even for a moment before it is removed again: the process may end then."""
    environment = Waiting()
    log = opened(tmp_path / "topic-0", environment)
    grow(log, 7, range(10))
    log.shorten_tail()
    [(work, done)] = environment.jobs
    environment.jobs = []
    if worked:
        work()
    log.truncate_to(2)
    if not worked:
        work()
    for _ in range(20):
        append(log, make_batch(), epoch=1)
    for moment in ("before", "after"):
        again = killed(log, tmp_path / "topic-0", tmp_path / moment)
        assert again.log_end_offset == 22
        assert again.producers.states.check(7, 0, 2, 2) == ACCEPT, "not taken for a duplicate"
        again.close(clean=False)
        if moment == "before":
            done()
    assert RECENT not in names(tmp_path / "topic-0")
    log.shorten_tail()
    environment.run()
    assert names(tmp_path / "topic-0") == [RECENT]
    log.close(clean=False)


def test_one_write_at_a_time_and_the_committed_version_is_kept(tmp_path: Path) -> None:
    environment = Waiting()
    log = opened(tmp_path / "topic-0", environment)
    grow(log, 7, range(10))
    log.shorten_tail()
    grow(log, 7, range(10, 20))
    log.shorten_tail()
    assert environment.run() == 1
    assert names(tmp_path / "topic-0") == [RECENT]
    log.shorten_tail()
    assert environment.run() == 1
    assert names(tmp_path / "topic-0") == [RECENT], "10 was not committed"
    log.stored_high_watermark = 20
    grow(log, 7, range(20, 30))
    log.shorten_tail()
    assert environment.run() == 1
    assert names(tmp_path / "topic-0") == [RECENT, COMMITTED]
    log.close(clean=False)


def test_many_producers_are_written_less_often(tmp_path: Path) -> None:
    environment = Waiting()
    log = opened(tmp_path / "topic-0", environment)
    grow(log, 7, range(10))
    for pid in range(100, 1000):
        log.producers.states.record_append(pid, 0, 0, 0, 0, 1000)
    log.shorten_tail()
    assert not environment.jobs
    while len(log.extent.active.index) < 901 // producer_tail.PRODUCERS_PER_ENTRY:
        append(log, make_batch())
    log.shorten_tail()
    assert len(environment.jobs) == 1
    log.close(clean=False)


def test_a_new_log_of_the_same_name_never_gets_the_file(tmp_path: Path) -> None:
    environment = Waiting()
    log = opened(tmp_path / "topic-0", environment)
    grow(log, 7, range(10))
    log.shorten_tail()
    log.closing.delete(TOKEN)
    other = opened(tmp_path / "topic-0")
    environment.run()
    assert names(tmp_path / "topic-0") == []
    other.close(clean=False)


def test_a_failed_write_or_rename_fails_the_directory(tmp_path: Path) -> None:
    disk = FileSystem()
    environment = Waiting(disk)
    log = opened(tmp_path / "topic-0", environment)
    grow(log, 7, range(10))
    log.shorten_tail()
    [(work, done)] = environment.jobs
    work()

    def fail(*_: object) -> None:
        raise OSError(5, "the journal is gone")

    disk.rename = fail
    with pytest.raises(LogDirFailure):
        done()
    disk.pwritev = fail  # type: ignore[assignment]
    with pytest.raises(LogDirFailure):
        producer_tail._TailJob(environment, log.directory, 1, [], log.life).run()
    log.close(clean=False)


def test_a_directory_that_stalls_meanwhile_gets_no_rename(tmp_path: Path) -> None:
    """A rename that hangs on the owner's thread would block all other logs."""
    environment = Waiting()
    log = opened(tmp_path / "topic-0", environment)
    grow(log, 7, range(10))
    log.shorten_tail()
    environment.stall.slow_write()
    assert environment.stall.stalled
    environment.run()
    assert RECENT not in names(tmp_path / "topic-0")
    log.close(clean=False)
