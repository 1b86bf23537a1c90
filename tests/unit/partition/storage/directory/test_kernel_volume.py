"""Kernel information on file systems: fake ones, this machine's, and one on a loop device."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.partition.core.lineage import UNKNOWN_VOLUME, Volume, survived
from highwater.partition.storage.directory.kernel_volume import KernelVolumes, UnknownVolumes
from tests.support import mounted_disk
from tests.support.mounted_disk import LoopDisk


class Kernel:
    """A fake sysfs and mountinfo for the temporary directory's file system."""

    def __init__(self, tmp_path: Path, kind: str = "ext4") -> None:
        device = tmp_path.stat().st_dev
        self.number = f"{os.major(device)}:{os.minor(device)}"
        self.place = tmp_path
        self.sysfs = tmp_path / "sys"
        self.mounts = tmp_path / "mountinfo"
        self.directory = self.sysfs / "fs" / kind / "sdb1"
        self.directory.mkdir(parents=True)
        block = self.sysfs / "dev" / "block" / self.number
        block.parent.mkdir(parents=True)
        block.symlink_to("../../devices/pci0/block/sdb/sdb1")
        for name in ("errors_count", "last_error_time", "warning_count"):
            (self.directory / name).write_text("0\n")
        self.mounted("rw")

    def mounted(self, options: str) -> None:
        self.mounts.write_text(
            "21 1 0:5 / /proc rw - proc proc ro\n"
            f"42 27 {self.number} /d /data rw,relatime shared:1 - ext4 /dev/sdb1 {options}\n"
        )

    def look(self) -> Volume:
        return KernelVolumes(sysfs=self.sysfs, mounts=self.mounts).look(str(self.place))


@pytest.mark.parametrize("kind", ["ext4", "xfs", "f2fs"])
def test_the_sysfs_directory_identifies_the_mounted_file_system(tmp_path: Path, kind: str) -> None:
    kernel = Kernel(tmp_path, kind)
    before = kernel.look()
    assert before.superblock == f"{kind}:{kernel.directory.stat().st_ino}"
    assert kernel.look() == before
    kernel.directory.rename(tmp_path / "the former one")
    kernel.directory.mkdir()
    assert not survived(before, kernel.look())


def test_errors_are_counted(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    before = kernel.look()
    assert before.errors == "0:0:0"
    (kernel.directory / "warning_count").write_text("3\n")
    assert kernel.look().errors == "0:0:3"
    assert not survived(before, kernel.look())
    (kernel.directory / "errors_count").unlink()
    assert kernel.look().errors == ""


@pytest.mark.parametrize(
    ("options", "read_only"),
    [
        ("rw,errors=remount-ro", False),
        ("ro,errors=remount-ro", True),
        ("rw,errors=remount-ro,emergency_ro", True),
    ],
)
def test_an_error_that_made_it_read_only(tmp_path: Path, options: str, read_only: bool) -> None:
    kernel = Kernel(tmp_path)
    kernel.mounted(options)
    assert kernel.look().read_only == read_only


def test_missing_information_is_unknown(tmp_path: Path) -> None:
    nowhere = KernelVolumes(sysfs=tmp_path / "none", mounts=tmp_path / "none")
    found = nowhere.look(str(tmp_path))
    assert (found.superblock, found.errors, found.read_only) == ("", "", False)
    assert nowhere.look(str(tmp_path / "no directory")) == UNKNOWN_VOLUME
    assert UnknownVolumes().look(str(tmp_path)) == UNKNOWN_VOLUME


def test_repeated_looks_agree_on_this_machine(tmp_path: Path) -> None:
    before = KernelVolumes().look(str(tmp_path))
    assert not before.read_only
    assert survived(before, KernelVolumes().look(str(tmp_path)))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    if why := mounted_disk.missing("mkfs.ext4", "losetup"):
        pytest.skip(why)
    made = LoopDisk(tmp_path / "disk", image=tmp_path / "image", size_bytes=64 << 20)
    made.mount()
    try:
        yield made
    finally:
        made.unmount()


LOOK_IN_A_NAMESPACE = """
import sys
from highwater.partition.storage.directory.kernel_volume import KernelVolumes
v = KernelVolumes().look(sys.argv[1])
print(v.superblock, v.mount_namespace or "-", v.mount or "-", v.errors)
"""


@pytest.mark.full
@pytest.mark.slow
def test_a_disk_that_is_mounted_again_and_one_that_has_an_error(disk: LoopDisk) -> None:
    volumes = KernelVolumes()
    first = volumes.look(str(disk.path))
    assert first.superblock.startswith("ext4:")
    assert survived(first, volumes.look(str(disk.path)))
    disk.mount_again()
    second = volumes.look(str(disk.path))
    assert not survived(first, second)
    assert survived(second, volumes.look(str(disk.path)))
    disk.fail()
    third = volumes.look(str(disk.path))
    assert third.read_only
    assert third.errors != second.errors
    assert not survived(second, third)


@pytest.mark.full
@pytest.mark.slow
def test_a_container_that_starts_again_sees_the_same_file_system(
    disk: LoopDisk, tmp_path: Path
) -> None:
    """Its mounts and their namespace are new; the file system stayed mounted."""
    inside = tmp_path / "volume"
    inside.mkdir()
    seen = []
    for _ in range(2):
        told = subprocess.run(
            [
                "unshare", "--mount", "sh", "-c",
                f'mount --bind {disk.path} {inside} && exec "$0" -c "$1" {inside}',
                sys.executable, LOOK_IN_A_NAMESPACE,
            ],
            check=True, capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        superblock, namespace, mount, errors = told.stdout.split()
        seen.append(
            Volume(superblock=superblock, mount_namespace=namespace, mount=mount, errors=errors)
        )
    if seen[0].mount != "-":
        assert seen[0].mount != seen[1].mount
    assert survived(seen[0], seen[1])
    disk.mount_again()
    assert not survived(seen[1], KernelVolumes().look(str(disk.path)))
