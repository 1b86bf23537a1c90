import errno
from pathlib import Path

import pytest

from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.environment import InlineEnvironment
from tests.support.log_batches import append, make_batch, open_log


class Recording(FileSystem):
    """Records which files were synced."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[str] = []
        self.fdatasync = self.fsync = self._sync

    def _sync(self, fd: int) -> None:
        self.synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)


def test_one_flush_syncs_segments_and_indexes_of_sealed_ones(tmp_path: Path) -> None:
    files = Recording()
    environment = InlineEnvironment(files)
    deferred = []
    environment.run_later = lambda work, done: deferred.append((work, done))
    log = open_log(tmp_path / "topic-0", environment=environment)
    append(log, make_batch(), epoch=0)
    log.roll()
    append(log, make_batch())
    deferred.clear()
    files.synced.clear()
    job = log.durability.begin_flush()
    assert job is not None
    assert [segment.pins for segment in log.extent.all] == [2, 1]  # The roll's flush pins one, too.
    job.run()
    zero = "00000000000000000000"
    assert files.synced == [
        f"{zero}.log", "00000000000000000001.log", f"{zero}.index", f"{zero}.timeindex",
    ]  # fmt: skip
    log.durability.complete_flush(job)
    assert log.durability.recovery_point == 2
    assert log.extent.all[1].pins == 0


def test_the_directory_is_synced_once_after_files_were_made(tmp_path: Path) -> None:
    files = Recording()
    log = open_log(tmp_path / "topic-0", environment=InlineEnvironment(files))
    append(log, make_batch(), epoch=0)
    log.durability.flush()
    assert files.synced == ["00000000000000000000.log", "leader-epoch-checkpoint", "topic-0"]
    append(log, make_batch())
    files.synced.clear()
    log.durability.flush()
    assert files.synced == ["00000000000000000000.log"]


def test_a_failed_sync_names_the_file_and_unpins_it(tmp_path: Path) -> None:
    files = FileSystem()
    log = open_log(tmp_path / "topic-0", environment=InlineEnvironment(files))
    append(log, make_batch(), epoch=0)
    job = log.durability.begin_flush()
    assert job is not None

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "bad sector")

    files.fdatasync = fail
    with pytest.raises(LogDirFailure, match=r"00000000000000000000\.log"):
        job.run()
    job.release()
    assert log.extent.active.pins == 0
    assert log.durability.recovery_point == 0
