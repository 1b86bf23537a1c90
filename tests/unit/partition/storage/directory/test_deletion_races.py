"""A log is deleted while its jobs on other threads wait or run; no directory fails."""

import errno
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.environment import InlineEnvironment, remove
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.log_life import LogLife
from tests.support.log_batches import append, append_info, make_batch, open_log, write_with

TOKEN = "0123456789abcdef" * 2
JOBS = ("flush", "roll", "snapshot", "write")
BATCH = make_batch(producer_id=1, producer_epoch=0, base_sequence=0)
BEFORE_AND_DURING = (None, "open", "fdatasync", "fsync", "rename", "pwritev", "listdir")


class Waiting(InlineEnvironment):
    """Keeps jobs until the test runs them, like a slow worker."""

    def __init__(self, filesystem: FileSystem | None = None) -> None:
        super().__init__(filesystem)
        self.jobs: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self.removes = False
        """Whether the delay before the removal of files ends at once or never."""

    def run_later(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        self.jobs.append((work, done))

    write_later = run_later

    def delete_later(self, paths: Sequence[str], delay_ms: int) -> None:
        if self.removes:
            super().delete_later(paths, delay_ms)

    def run(self) -> int:
        """Runs all waiting jobs; returns how many."""
        jobs, self.jobs = self.jobs, []
        for work, done in jobs:
            work()
            done()
        return len(jobs)


def begin(job: str, log: PartitionLog, environment: Waiting) -> None:
    """Leaves one job of a kind waiting. The log's directory was never synced before."""
    append(log, BATCH, epoch=0)
    match job:
        case "flush":
            flush = log.durability.begin_flush()
            assert flush is not None
            environment.jobs = [(flush.run, lambda: log.durability.complete_flush(flush))]
        case "roll":
            log.roll()
            environment.jobs.pop()[0]()
        case "snapshot":
            log.roll()
            work, done = environment.jobs.pop(0)
            work()
            done()
        case "write":
            batch = make_batch(base_offset=1)
            info = append_info([batch], [1], next_offset=2, max_timestamp=(1000, 1), epoch=0)
            log.late_writer.append(info, lambda: None)
    assert len(environment.jobs) == 1


def delete(log: PartitionLog, *, removed: bool) -> None:
    """Deletes the log, and its files at once if the delay ends at once."""
    environment = log._place.environment
    assert isinstance(environment, Waiting)
    environment.removes = removed
    real = FileSystem()
    files, interfering = environment.filesystem, environment.filesystem.rename
    files.rename = real.rename
    log.closing.delete(TOKEN)
    files.rename = interfering


@pytest.mark.parametrize("removed", [False, True], ids=["renamed", "removed"])
@pytest.mark.parametrize("call", BEFORE_AND_DURING)
@pytest.mark.parametrize("job", JOBS)
def test_a_job_of_a_deleted_log(tmp_path: Path, job: str, call: str | None, removed: bool) -> None:
    """Deleted before the job begins, or just before its first call of a kind."""
    files = FileSystem()
    environment = Waiting(files)
    log = open_log(tmp_path / "topic-0", environment=environment)
    begin(job, log, environment)
    if call is None:
        delete(log, removed=removed)
    else:
        real = getattr(files, call)

        def first_delete(*arguments: object, **named: object) -> object:
            setattr(files, call, real)
            delete(log, removed=removed)
            return real(*arguments, **named)

        setattr(files, call, first_delete)
        write_with(log, files.pwritev)
    assert environment.run() == 1
    if not log.life.ended:
        delete(log, removed=removed)  # This job has no such call.
    assert not (tmp_path / "topic-0").exists()
    assert all(segment.pins == 0 and segment.fd < 0 for segment in log.extent.all)
    assert log.durability.begin_flush() is None


@pytest.mark.parametrize("job", ["flush", "roll", "snapshot"])
def test_a_living_log_that_loses_its_directory(tmp_path: Path, job: str) -> None:
    environment = Waiting()
    log = open_log(tmp_path / "topic-0", environment=environment)
    begin(job, log, environment)
    remove(str(tmp_path / "topic-0"))
    with pytest.raises(LogDirFailure, match="topic-0"):
        environment.run()
    assert log.durability.recovery_point == (1 if job == "snapshot" else 0)


@pytest.mark.parametrize("job", ["flush", "roll"])
def test_deleted_logs_are_not_synced(tmp_path: Path, job: str) -> None:
    files = FileSystem()
    environment = Waiting(files)
    log = open_log(tmp_path / "topic-0", environment=environment)
    begin(job, log, environment)
    delete(log, removed=False)

    def fail(*_: object, **__: object) -> int:
        raise AssertionError("nobody will read it again")

    files.fdatasync = fail
    assert environment.run() == 1


@pytest.mark.parametrize("job", ["snapshot", "write"])
def test_a_deletion_does_not_excuse_a_failing_disk(tmp_path: Path, job: str) -> None:
    files = FileSystem()
    environment = Waiting(files)
    log = open_log(tmp_path / "topic-0", environment=environment)
    begin(job, log, environment)
    delete(log, removed=False)

    def fail(*_: object, **__: object) -> int:
        raise OSError(errno.EIO, "bad sector")

    for call in ("fdatasync", "fsync"):
        setattr(files, call, fail)
    write_with(log, fail)
    with pytest.raises(LogDirFailure, match="bad sector"):
        environment.run()


def test_reserved_space_and_indexes_go_with_the_log(tmp_path: Path) -> None:
    """Both run on the owner's thread; neither may have an effect after the deletion."""
    environment = Waiting()
    config = LogConfig(preallocate=True, segment_bytes=1 << 20, index_interval_bytes=1)
    log = open_log(tmp_path / "topic-0", config, environment=environment)
    for _ in range(3):
        append(log, make_batch(), epoch=0)
    log.roll()
    delete(log, removed=True)
    assert environment.run() == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EACCES])
def test_errors_that_a_deletion_excuses(code: int) -> None:
    life = LogLife()
    assert not life.excuses(FileNotFoundError(errno.ENOENT, "gone"))
    life.ended = True
    assert life.excuses(FileNotFoundError(errno.ENOENT, "gone"))
    assert life.excuses(OSError(errno.EBADF, "closed"))
    assert not life.excuses(OSError(code, "refused"))
