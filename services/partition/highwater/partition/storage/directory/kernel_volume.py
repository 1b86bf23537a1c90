"""What the running Linux kernel knows of a directory's file system (`core.lineage.Volume`).

A file system that is unmounted and mounted again, or whose device disappears, loses unwritten data
although the kernel keeps running. Three things show this:

- The directory `/sys/fs/<type>/<device>` exists while the file system is mounted. A kernel never
 uses its inode number twice, and shows the same number in every container. ext4, xfs and f2fs
 have one.
- STATX_MNT_ID_UNIQUE (Linux 6.8) identifies a mount while the kernel runs. It is used for other
 file systems, and only between processes in one mount namespace, whose id is unique as well
 (NS_GET_MNTNS_ID, Linux 6.11), because a container gets new mounts at each start.
- ext4 counts its errors and warnings, including failed background writes; /proc/self/mountinfo
 shows whether an error has made a file system read-only.

syncfs, which reports errors of the whole file system, is not used: it would write everybody's
unwritten data to that file system before a killed node could start.
"""

import ctypes
import fcntl
import os
from pathlib import Path
from struct import Struct
from typing import Final, Protocol

from highwater.partition.core.lineage import UNKNOWN_VOLUME, Volume

_TYPES: Final = ("ext4", "xfs", "f2fs")
_COUNTERS: Final = ("errors_count", "last_error_time", "warning_count")
_READ_ONLY: Final = frozenset({"ro", "emergency_ro", "shutdown"})
_AT_FDCWD: Final = -100
_STATX_MNT_ID_UNIQUE: Final = 0x4000
_STATX_BYTES: Final = 256
_MASK: Final = Struct("I")
_MOUNT_ID: Final = Struct("Q")
_MOUNT_ID_AT: Final = 0x90
"""`stx_mnt_id` in `struct statx`."""
_NS_GET_MNTNS_ID: Final = (2 << 30) | (8 << 16) | (0xB7 << 8) | 5
"""`_IOR(NSIO, 5, __u64)` of linux/nsfs.h."""
_libc = ctypes.CDLL(None, use_errno=True)


class Volumes(Protocol):
    """Reads the state of directories' file systems."""

    def look(self, path: str) -> Volume:
        """What is known now of the file system that holds `path`."""
        ...


class UnknownVolumes:
    """Knows nothing: only device, inode and boot id are compared."""

    def look(self, path: str) -> Volume:  # noqa: ARG002 - a port's signature.
        """Unknown."""
        return UNKNOWN_VOLUME


class KernelVolumes:
    """Asks the kernel; what it does not tell is unknown."""

    def __init__(
        self, *, sysfs: Path = Path("/sys"), mounts: Path = Path("/proc/self/mountinfo")
    ) -> None:
        """Tests replace the paths."""
        self._sysfs = sysfs
        self._mounts = mounts

    def look(self, path: str) -> Volume:
        """See `Volumes`. A few system calls without I/O on the file system itself."""
        try:
            device = os.stat(path).st_dev
        except OSError:
            return UNKNOWN_VOLUME
        number = f"{os.major(device)}:{os.minor(device)}"
        found = self._directory_of(number)
        return Volume(
            superblock=f"{found.parent.name}:{found.stat().st_ino}" if found else "",
            mount_namespace=_mount_namespace(),
            mount=_mount_of(path),
            errors=_counters(found) if found else "",
            read_only=self._read_only(number),
        )

    def _directory_of(self, number: str) -> Path | None:
        """The `/sys/fs/<type>/<device>` of a device number."""
        try:
            name = (self._sysfs / "dev" / "block" / number).readlink().name
        except OSError:
            return None
        for kind in _TYPES:
            path = self._sysfs / "fs" / kind / name
            if path.is_dir():
                return path
        return None

    def _read_only(self, number: str) -> bool:
        """Whether the file system itself is read-only, not only its mount."""
        try:
            lines = self._mounts.read_text(errors="replace").splitlines()
        except OSError:
            return False
        for line in lines:
            # id, parent, major:minor, root, mount point, options, ..., "-", type, source, options
            fields = line.split(" ")
            if len(fields) > 6 and fields[2] == number and "-" in fields:
                return not _READ_ONLY.isdisjoint(fields[-1].split(","))
        return False


def _counters(directory: Path) -> str:
    try:
        return ":".join((directory / name).read_text().strip() for name in _COUNTERS)
    except OSError:
        return ""


def _mount_of(path: str) -> str:
    """The mount's unique id; empty before Linux 6.8, and where the C library has no statx."""
    statx = getattr(_libc, "statx", None)
    if statx is None:
        return ""
    found = ctypes.create_string_buffer(_STATX_BYTES)
    failed = statx(
        ctypes.c_int(_AT_FDCWD),
        os.fsencode(path),
        ctypes.c_int(0),
        ctypes.c_uint(_STATX_MNT_ID_UNIQUE),
        found,
    )
    if failed or not _MASK.unpack_from(found.raw)[0] & _STATX_MNT_ID_UNIQUE:
        return ""
    return str(_MOUNT_ID.unpack_from(found.raw, _MOUNT_ID_AT)[0])


def _mount_namespace() -> str:
    """The process's mount namespace; empty before Linux 6.11."""
    answer = bytearray(8)
    try:
        fd = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        fcntl.ioctl(fd, _NS_GET_MNTNS_ID, answer)
    except OSError:
        return ""
    finally:
        os.close(fd)
    return str(int.from_bytes(answer, "little"))
