"""Lineage in real directories: starts, stops, failed disks, added and removed directories."""

import errno
import itertools
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.model.cluster import TopicState
from highwater.model.ids import InstanceId, TopicId
from highwater.partition.core.lineage import UNKNOWN_VOLUME, DirectoryRecord, Volume
from highwater.partition.storage.directory.failure_notes import FailureNotes, RuntimeNotes
from highwater.partition.storage.directory.kernel_volume import KernelVolumes, Volumes
from highwater.partition.storage.directory.lineage_file import LINEAGE_FILE, decode
from highwater.partition.storage.directory.log_manager import LogManager
from highwater.partition.storage.directory.node_lineage import NodeLineage
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.filesystem import FileSystem
from tests.support import mounted_disk
from tests.support.log_batches import ManualClock
from tests.support.mounted_disk import LoopDisk

TOPIC = TopicState(
    topic_id=TopicId(b"t" * 16), instance=InstanceId("default"), name="orders", partitions=()
)


class Told:
    """A kernel with the same information on every file system."""

    def __init__(self, volume: Volume) -> None:
        self.volume = volume

    def look(self, path: str) -> Volume:
        assert Path(path).is_dir()
        return self.volume


class Start:
    """One incarnation of a node, with open directories and their workers."""

    numbers = itertools.count(1)

    def __init__(
        self,
        *dirs: Path,
        name: str,
        boot_id: str = "boot",
        filesystems: dict[Path, FileSystem] | None = None,
        volume: Volume = UNKNOWN_VOLUME,
        volumes: Volumes | None = None,
        notes: FailureNotes | None = None,
    ) -> None:
        made = {str(path): filesystem for path, filesystem in (filesystems or {}).items()}
        self.dirs = dirs
        self.failed: list[int] = []
        self.lineage = NodeLineage(
            incarnation=name,
            boot_id=boot_id,
            new_id=lambda: f"id{next(self.numbers)}",
            volumes=volumes or Told(volume),
            notes=notes,
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
        """Ends the workers and closes descriptors, as the kernel does for a killed process."""
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


def test_records_of_a_killed_process_are_proven_on_the_same_kernel(dirs: tuple[Path, Path]) -> None:
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


def test_the_cache_is_intact_after_a_kill_on_the_same_kernel(tmp_path: Path) -> None:
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


def test_a_copy_made_while_the_node_ran_proves_nothing(dirs: tuple[Path, Path]) -> None:
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


VOLUME = Volume(superblock="ext4:7", mount_namespace="4", mount="70", errors="0:0:0")


@pytest.mark.parametrize(
    ("changed", "whole"),
    [
        ({}, True),
        ({"mount": "71", "mount_namespace": "5"}, True),
        ({"superblock": "ext4:8"}, False),
        ({"errors": "1:55:0"}, False),
        ({"read_only": True}, False),
    ],
)
def test_a_file_system_that_lost_what_was_in_memory(
    tmp_path: Path, changed: dict[str, str | bool], whole: bool
) -> None:
    """The kernel is the same, and so are device and inode."""
    for name in ("one", "two"):
        Start(tmp_path / "a", name=name, volume=VOLUME).registered().kill()
    now = replace(VOLUME, **changed)
    third = Start(tmp_path / "a", name="three", volume=now)
    assert third.evidence == (("two",) if whole else ())
    assert third.manager.dirs[0].cache_intact == whole
    third.registered().kill()
    fourth = Start(tmp_path / "a", name="four", volume=replace(now, read_only=False))
    assert fourth.evidence == ("three",), "which has written since"
    fourth.close()


def test_a_file_system_that_was_mounted_again_after_an_orderly_end(tmp_path: Path) -> None:
    Start(tmp_path / "a", name="one", volume=VOLUME).registered().close()
    second = Start(tmp_path / "a", name="two", volume=replace(VOLUME, superblock="ext4:8"))
    assert second.evidence == ("one",), "nothing was in memory only"
    second.close()


def refusing() -> FileSystem:
    """A file system on which no file can be created."""
    broken = FileSystem()
    opened = broken.open

    def fail(path: str, flags: int, *mode: int) -> int:
        if mode:
            raise OSError(errno.EIO, "the disk is broken")
        return opened(path, flags)

    broken.open = fail
    return broken


@pytest.mark.parametrize("at_the_end", [False, True])
def test_a_failed_write_is_remembered_where_the_only_disk_cannot_note_it(
    tmp_path: Path, at_the_end: bool
) -> None:
    notes = RuntimeNotes([tmp_path / "run"], boot_id="boot")
    files = FileSystem()
    first = Start(tmp_path / "a", name="one", filesystems={tmp_path / "a": files}, notes=notes)
    first.registered()
    files.open = refusing().open
    if at_the_end:
        first.close()
    else:
        failure = LogDirFailure(str(tmp_path / "a"), OSError(errno.EIO, "a sync failed"))
        first.manager.fail_dir(0, failure)
        first.kill()
    assert kept(tmp_path / "a").lineage.incarnations == ("one",), "it could not be told"
    second = Start(tmp_path / "a", name="two", notes=notes)
    assert second.evidence == ()
    assert not second.manager.dirs[0].cache_intact
    second.registered().kill()
    third = Start(tmp_path / "a", name="three", notes=notes)
    assert third.evidence == ("two",), "the directory says it now, and the note is gone"
    third.close()


@pytest.mark.full
@pytest.mark.slow
def test_a_disk_that_is_unmounted_and_mounted_again_under_a_killed_node(tmp_path: Path) -> None:
    """With real files: kernel, device and inode are the same, but unwritten data is lost."""
    if why := mounted_disk.missing("mkfs.ext4", "losetup"):
        pytest.skip(why)
    disk = LoopDisk(tmp_path / "disk", image=tmp_path / "image", size_bytes=64 << 20)
    disk.mount()
    try:
        for name, evidence in (("one", ()), ("two", ("one",))):
            node = Start(disk.path / "logs", name=name, volumes=KernelVolumes())
            assert node.evidence == evidence
            node.registered().kill()
        place = (disk.path / "logs").stat()
        disk.mount_again()
        assert (disk.path / "logs").stat().st_ino == place.st_ino
        assert (disk.path / "logs").stat().st_dev == place.st_dev
        third = Start(disk.path / "logs", name="three", volumes=KernelVolumes())
        assert third.evidence == ()
        assert not third.manager.dirs[0].cache_intact
        third.close()
    finally:
        disk.unmount()
