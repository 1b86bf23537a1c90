"""A file system that loses unsynced data, to simulate power cuts.

It works on real files and keeps what a disk would have after a power cut: the content of each file at
its last sync, and the names in each directory at the directory's last sync. A new file or directory
is durable only after a sync of the one that has it; after an unsynced rename the old one is in its
place.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import threading
from pathlib import Path
from typing import Any

from highwater.partition.storage.filesystem import FileSystem


class LosingFileSystem(FileSystem):
    """`cut_power` returns everything under `root` to its last synced state; `root` itself stays."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self._lock = threading.Lock()
        self._files = 0
        self._keys: dict[int, int] = {}
        """The file that an inode number currently belongs to, as numbers are reused."""
        self._contents: dict[int, bytes] = {}
        """The synced content of each file; none if it was never synced."""
        self._names: dict[int, dict[str, tuple[int, bool]]] = {}
        """The synced names of each directory, with their files, and whether these are directories."""
        self.fsync = self.fdatasync = self._sync
        self.open = self._open
        self.mkdir = self._mkdir
        self.rename = self._rename
        self.unlink = self._unlink

    def cut_power(self) -> None:
        """Replaces the files by their synced content. No file may be open."""
        self.root.mkdir(exist_ok=True)
        key = self._key(self.root)
        for path in self.root.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        self._keys = {self.root.stat().st_ino: key}
        self._restore(self.root, key)

    def on_disk(self, path: Path) -> bytes | None:
        """What a file would hold after a power cut now; None if its name would be gone."""
        names = self._names.get(self._key(path.parent), {})
        return self._contents.get(names[path.name][0], b"") if path.name in names else None

    def _restore(self, directory: Path, key: int) -> None:
        for name, (child, is_directory) in self._names.get(key, {}).items():
            path = directory / name
            if is_directory:
                path.mkdir()
                self._restore(path, child)
            else:
                path.write_bytes(self._contents.get(child, b""))
            self._keys[path.stat().st_ino] = child

    def _key(self, path: Path) -> int:
        return self._key_of(path.stat().st_ino)

    def _key_of(self, inode: int) -> int:
        with self._lock:
            if inode not in self._keys:
                self._files += 1
                self._keys[inode] = self._files
            return self._keys[inode]

    def _sync(self, fd: Any) -> None:
        os.fsync(fd)
        path = Path(f"/proc/self/fd/{fd}").readlink()
        key = self._key_of(os.fstat(fd).st_ino)
        if path.is_dir():
            names: dict[str, tuple[int, bool]] = {}
            for name in os.listdir(path):  # noqa: PTH208 - names, as the file system gives them.
                with contextlib.suppress(FileNotFoundError):  # Renamed or removed just now.
                    found = (path / name).stat()
                    names[name] = self._key_of(found.st_ino), stat.S_ISDIR(found.st_mode)
            self._names[key] = names
        else:
            # By its descriptor: another file may have its name by now.
            self._contents[key] = Path(f"/proc/self/fd/{fd}").read_bytes()

    def _open(self, path: Any, flags: int, *mode: Any, **places: Any) -> int:
        new = bool(flags & os.O_CREAT) and not _exists(path, **places)
        fd = os.open(path, flags, *mode, **places)
        if new:
            self._forget_inode(os.fstat(fd).st_ino)
        return fd

    def _mkdir(self, path: Any) -> None:
        os.mkdir(path)  # noqa: PTH102 - as the file system does.
        self._forget_inode(Path(path).stat().st_ino)

    def _rename(self, old: Any, new: Any, **places: Any) -> None:
        if not places:
            self._forget(new)
        os.replace(old, new, **places)  # noqa: PTH105 - relative to open directories, too.

    def _unlink(self, path: Any, **places: Any) -> None:
        if not places:
            self._forget(path)
        os.unlink(path, **places)

    def _forget(self, path: Any) -> None:
        """Forgets the inode of a name, as its number may be reused."""
        if Path(path).is_file():
            self._forget_inode(Path(path).stat().st_ino)

    def _forget_inode(self, inode: int) -> None:
        with self._lock:
            self._keys.pop(inode, None)


def _exists(path: Any, *, dir_fd: int | None = None) -> bool:
    try:
        os.stat(path, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
