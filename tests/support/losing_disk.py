"""A file system that loses unsynced data, to simulate power cuts.

It works on real files and keeps what a disk would have after a power cut: the content of each file at
its last sync, and the names in each directory at the directory's last sync. A new file is durable
only after a sync of its directory; after an unsynced rename the old file is in its place.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from highwater.partition.storage.filesystem import FileSystem


class LosingFileSystem(FileSystem):
    """`cut_power` returns everything under `root` to its last synced state."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self._files = 0
        self._keys: dict[int, int] = {}
        """The file that an inode number currently belongs to, as numbers are reused."""
        self._contents: dict[int, bytes] = {}
        """The synced content of each file; none if it was never synced."""
        self._names: dict[Path, dict[str, int]] = {}
        """The synced names of each directory, with their files."""
        self.fsync = self.fdatasync = self._sync
        self.rename = self._rename
        self.unlink = self._unlink

    def cut_power(self) -> None:
        """Replaces the files by their synced content. No file may be open."""
        for path in self.root.rglob("*"):
            if path.is_file():
                path.unlink()
        self._keys.clear()
        for directory, names in self._names.items():
            for name, key in names.items():
                path = directory / name
                path.write_bytes(self._contents.get(key, b""))
                self._keys[path.stat().st_ino] = key

    def _key(self, inode: int) -> int:
        if inode not in self._keys:
            self._files += 1
            self._keys[inode] = self._files
        return self._keys[inode]

    def _sync(self, fd: Any) -> None:
        os.fsync(fd)
        path = Path(f"/proc/self/fd/{fd}").readlink()
        if path.is_dir():
            files = (found for found in path.iterdir() if found.is_file())
            self._names[path] = {file.name: self._key(file.stat().st_ino) for file in files}
        else:
            self._contents[self._key(os.fstat(fd).st_ino)] = path.read_bytes()

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
            self._keys.pop(Path(path).stat().st_ino, None)
