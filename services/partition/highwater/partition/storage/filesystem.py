"""The port through which storage touches files, so that tests can make I/O fail.

The attributes of `FileSystem` are the operating system's own functions, so a call costs one
attribute look-up; a fault is injected by replacing attributes of one instance.
"""

import os
from collections.abc import Callable

from highwater.partition.storage.fallocate import fallocate


class FileSystem:
    """File operations of one log directory. All raise OSError as the `os` functions do."""

    __slots__ = (
        "close",
        "fadvise",
        "fallocate",
        "fdatasync",
        "fstat",
        "fsync",
        "ftruncate",
        "listdir",
        "mkdir",
        "open",
        "pread",
        "preadv",
        "pwritev",
        "rename",
        "stat",
        "unlink",
    )

    def __init__(self) -> None:
        self.open: Callable[..., int] = os.open
        self.close = os.close
        self.fadvise = os.posix_fadvise
        self.fallocate = fallocate
        self.pread = os.pread
        self.preadv: Callable[..., int] = os.preadv
        self.pwritev: Callable[..., int] = os.pwritev
        self.fsync = os.fsync
        self.fdatasync = os.fdatasync
        self.ftruncate = os.ftruncate
        self.fstat = os.fstat
        self.stat: Callable[..., os.stat_result] = os.stat
        self.rename: Callable[..., None] = os.replace
        self.unlink: Callable[..., None] = os.unlink
        self.mkdir: Callable[[str], None] = os.mkdir
        self.listdir: Callable[..., list[str]] = os.listdir


def read_file(filesystem: FileSystem, path: str, *, limit: int) -> bytes:
    """The whole file; ValueError if it is longer than `limit` bytes, which no good file is."""
    fd = filesystem.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = filesystem.fstat(fd).st_size
        if size > limit:
            raise ValueError(f"{path} has {size} bytes, more than {limit}")
        parts: list[bytes] = []
        position = 0
        while position < size:
            part = filesystem.pread(fd, size - position, position)
            if not part:
                break
            parts.append(part)
            position += len(part)
        return b"".join(parts)
    finally:
        filesystem.close(fd)


def write_all(filesystem: FileSystem, fd: int, data: bytes, position: int) -> None:
    """Writes all of `data` at `position`, however short the single writes are."""
    view = memoryview(data)
    while view:
        written = filesystem.pwritev(fd, [view], position)
        view = view[written:]
        position += written


def replace_file(
    filesystem: FileSystem, path: str, data: bytes, *, temporary: str, durable: bool
) -> None:
    """Puts `data` in place of `path` so that a reader sees the old file or the new one, whole.

    With `durable` the bytes are on disk before the name changes, and the change of name is too.
    """
    fd = filesystem.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        write_all(filesystem, fd, data, 0)
        if durable:
            filesystem.fsync(fd)
    finally:
        filesystem.close(fd)
    filesystem.rename(temporary, path)
    if durable:
        sync_directory(filesystem, os.path.dirname(path))


def sync_directory(filesystem: FileSystem, path: str) -> None:
    """Makes names created, renamed or removed in a directory survive a power cut."""
    fd = filesystem.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        filesystem.fsync(fd)
    finally:
        filesystem.close(fd)


def sync_if_present(filesystem: FileSystem, path: str) -> None:
    """Sync a file's bytes and size, if there is such a file. Raises OSError."""
    try:
        fd = filesystem.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        filesystem.fsync(fd)
    finally:
        filesystem.close(fd)


def unlink_if_present(filesystem: FileSystem, path: str) -> None:
    """Removes a file; fine if it is gone already."""
    try:
        filesystem.unlink(path)
    except FileNotFoundError:
        return
