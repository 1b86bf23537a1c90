"""Lineage in real directories: starts, ends, failed disks, and directories that come and go."""

import errno
import itertools
import shutil
import time
from pathlib import Path

import pytest

from highwater.model.cluster import TopicState
from highwater.model.ids import InstanceId, TopicId
from highwater.partition.core.lineage import DirectoryRecord
from highwater.partition.storage.directory.lineage_file import LINEAGE_FILE, decode
from highwater.partition.storage.directory.log_manager import LogManager
from highwater.partition.storage.directory.node_lineage import NodeLineage
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.filesystem import FileSystem
from tests.support.log_batches import ManualClock

TOPIC = TopicState(
    topic_id=TopicId(b"t" * 16), instance=InstanceId("default"), name="orders", partitions=()
)


class Start:
    """One incarnation of a node: its directories open, its workers at hand."""

    numbers = itertools.count(1)

    def __init__(
        self,
        *dirs: Path,
        name: str,
        boot_id: str = "boot",
        filesystems: dict[Path, FileSystem] | None = None,
    ) -> None:
        made = {str(path): filesystem for path, filesystem in (filesystems or {}).items()}
        self.dirs = dirs
        self.failed: list[int] = []
        self.lineage = NodeLineage(
            incarnation=name, boot_id=boot_id, new_id=lambda: f"id{next(self.numbers)}"
        )
        self.manager = LogManager(
            dirs,
            clock=ManualClock(),
            post=lambda callback: callback(),
            on_dir_failure=lambda index, _failure: self.failed.append(index),
            make_filesystem=lambda path: made.get(path) or FileSystem(),
            lineage=self.lineage,
        )
        self.manager.open()
        self.manager.start()
        self.evidence = self.lineage.evidence

    def registered(self) -> "Start":
        self.manager.registered()
        return self

    def kill(self) -> None:
        """What the kernel does for a killed process, whose workers have ended."""
        for hosted in self.manager.dirs:
            worker, hosted._worker = hosted._worker, None
            if worker is not None:
                worker.stop(timeout_s=5)
            hosted.directory.close()

    def close(self) -> None:
        self.manager.close()


def kept(directory: Path) -> DirectoryRecord:
    record = decode((directory / LINEAGE_FILE).read_bytes())
    assert record is not None
    return record


@pytest.fixture
def dirs(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "a", tmp_path / "b"


def test_the_first_start_proves_nothing(dirs: tuple[Path, Path]) -> None:
    first = Start(*dirs, name="one")
    assert first.evidence == ()
    first.registered()
    assert first.lineage.evidence == ("one",), "for a registration again"
    first.close()


def test_a_killed_process_left_everything_to_the_kernel(dirs: tuple[Path, Path]) -> None:
    Start(*dirs, name="one").registered().kill()
    second = Start(*dirs, name="two")
    assert second.evidence == ("one",)
    second.kill()
    third = Start(*dirs, name="three")
    assert third.evidence == ("one", "two"), "nobody knows whether two was registered"
    third.close()


def test_a_reboot_without_an_orderly_end(dirs: tuple[Path, Path]) -> None:
    Start(*dirs, name="one").registered().kill()
    second = Start(*dirs, name="two", boot_id="later").registered()
    assert second.evidence == ()
    second.close()
    third = Start(*dirs, name="three", boot_id="later still")
    assert third.evidence == ("two",), "which ended in order"
    third.close()


def test_the_start_is_noted_before_anything_is_recovered(dirs: tuple[Path, Path]) -> None:
    first = Start(*dirs, name="one").registered()
    first.manager.open_log(TOPIC, 0)
    first.kill()
    before: list[tuple[str, ...]] = []

    class Watching(FileSystem):
        def __init__(self) -> None:
            super().__init__()
            listdir = self.listdir

            def look(path: str) -> list[str]:
                before.append(kept(dirs[0]).lineage.incarnations)
                return listdir(path)

            self.listdir = look

    Start(*dirs, name="two", filesystems=dict.fromkeys(dirs, Watching())).close()
    assert before
    assert set(before) == {("one", "two")}


def test_a_disk_that_fails_is_noted_on_the_others(dirs: tuple[Path, Path]) -> None:
    broken = FileSystem()
    first = Start(*dirs, name="one", filesystems={dirs[1]: broken}).registered()
    failure = OSError(errno.EIO, "the disk is broken")

    def fail(*_: object) -> int:
        raise failure

    broken.pwritev = fail
    first.manager.fail_dir(1, LogDirFailure(str(dirs[1]), failure))
    assert first.lineage.evidence == (), "not even a registration again may say otherwise"
    first.kill()
    assert kept(dirs[0]).lineage.incarnations == ()
    assert kept(dirs[1]).lineage.incarnations == ("one",), "it could not be told"
    second = Start(*dirs, name="two")
    assert second.evidence == ()
    second.close()


def test_a_disk_that_fails_is_noted_on_itself_if_that_works(tmp_path: Path) -> None:
    first = Start(tmp_path / "a", name="one").registered()
    failure = OSError(errno.EIO, "a sync failed")
    first.manager.fail_dir(0, LogDirFailure(str(tmp_path / "a"), failure))
    first.kill()
    deadline = time.monotonic() + 5
    while kept(tmp_path / "a").lineage.incarnations and time.monotonic() < deadline:
        time.sleep(0.01)
    second = Start(tmp_path / "a", name="two")
    assert second.evidence == ()
    assert not second.manager.dirs[0].cache_intact
    second.close()


def test_the_cache_is_intact_for_who_was_killed_on_the_same_kernel(tmp_path: Path) -> None:
    first = Start(tmp_path / "a", name="one")
    assert not first.manager.dirs[0].cache_intact
    first.kill()
    second = Start(tmp_path / "a", name="two")
    assert not second.manager.dirs[0].cache_intact, "the first one was not heard to have recovered"
    second.registered().kill()
    third = Start(tmp_path / "a", name="three")
    assert third.manager.dirs[0].cache_intact
    third.kill()
    fourth = Start(tmp_path / "a", name="four")
    assert fourth.manager.dirs[0].cache_intact, "it had nothing to check that was in doubt"
    fourth.registered().kill()
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    copied = Start(tmp_path / "copy", name="five")
    assert not copied.manager.dirs[0].cache_intact
    assert copied.evidence == ()
    copied.kill()
    rebooted = Start(tmp_path / "a", name="six", boot_id="other")
    assert not rebooted.manager.dirs[0].cache_intact
    rebooted.kill()
    again = Start(tmp_path / "a", name="seven", boot_id="other")
    assert not again.manager.dirs[0].cache_intact, "the one before may not have checked everything"
    again.close()


def test_a_copy_from_while_the_node_ran_is_put_in_its_place(dirs: tuple[Path, Path]) -> None:
    first = Start(*dirs, name="one").registered()
    copy = dirs[0].with_name("copy")
    shutil.copytree(dirs[0], copy)
    first.kill()
    dirs[0].rename(dirs[0].with_name("away"))
    copy.rename(dirs[0])
    second = Start(*dirs, name="two").registered()
    assert second.evidence == (), "what was written since is missing"
    second.kill()
    third = Start(*dirs, name="three").registered()
    assert third.evidence == ("two",)
    third.close()
    shutil.copytree(dirs[0], copy)
    shutil.rmtree(dirs[0])
    copy.rename(dirs[0])
    fourth = Start(*dirs, name="four")
    assert fourth.evidence == ("three",), "which ended in order and wrote no more"
    fourth.close()


def test_a_disk_that_fails_at_the_end(dirs: tuple[Path, Path]) -> None:
    broken = FileSystem()
    first = Start(*dirs, name="one", filesystems={dirs[1]: broken}).registered()

    def fail(_fd: int) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    broken.fsync = fail
    first.close()
    assert kept(dirs[0]).lineage.incarnations == ()
    assert not kept(dirs[1]).lineage.clean
    second = Start(*dirs, name="two")
    assert second.evidence == ()
    second.close()


def test_an_emptied_disk(dirs: tuple[Path, Path]) -> None:
    Start(*dirs, name="one").registered().close()
    shutil.rmtree(dirs[1])
    second = Start(*dirs, name="two").registered()
    assert second.evidence == ()
    second.close()
    third = Start(*dirs, name="three")
    assert third.evidence == ("two",)
    third.close()


def test_a_disk_that_is_added_and_one_that_is_taken_away(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    Start(*paths[:2], name="one").registered().close()
    second = Start(*paths, name="two").registered()
    assert second.evidence == ("one",)
    second.close()
    third = Start(*paths[1:], name="three").registered()
    assert third.evidence == ()
    third.close()


def test_a_disk_that_cannot_be_written_at_the_start(dirs: tuple[Path, Path]) -> None:
    Start(*dirs, name="one").registered().kill()
    broken = FileSystem()
    real = broken.open

    def fail(path: str, flags: int, mode: int = 0o777) -> int:
        if LINEAGE_FILE in path and mode != 0o777:
            raise OSError(errno.EROFS, "read-only")
        return real(path, flags, mode)

    broken.open = fail
    second = Start(*dirs, name="two", filesystems={dirs[1]: broken})
    assert second.failed == [1]
    assert second.evidence == ("one",), "its partitions are offline, the others are whole"
    second.registered().close()
    third = Start(*dirs, name="three")
    assert third.evidence == (), "what two wrote is in one of them only"
    third.close()


def test_a_disk_that_is_away_for_one_start(dirs: tuple[Path, Path], tmp_path: Path) -> None:
    Start(*dirs, name="one").registered().close()
    dirs[1].rename(tmp_path / "away")
    dirs[1].write_text("no directory")
    second = Start(*dirs, name="two").registered()
    assert second.failed == [1]
    assert second.evidence == ("one",)
    second.close()
    dirs[1].unlink()
    third = Start(dirs[0], name="three")
    assert third.evidence == (), "it is still known"
    third.close()
