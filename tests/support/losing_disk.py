"""A file system that forgets what was not synced, for power cuts without a machine.

It works on real files and keeps beside them what a disk would have: the content of each file at its
last sync, and the names of each directory at the last sync of that. Names of new files count as
durable with their directory only; a rename that was not synced leaves the old file in its place.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from highwater.partition.storage.filesystem import FileSystem


class LosingFileSystem(FileSystem):
    """Everything under `root` goes back to what was synced at `cut_power`."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self._files = 0
        self._keys: dict[int, int] = {}
        """Which file an inode is at present: numbers of inodes are used again."""
        self._contents: dict[int, bytes] = {}
        """What is on disk of each file; nothing of one that was never synced."""
        self._names: dict[Path, dict[str, int]] = {}
        """What is on disk of each directory: its files."""
        self.fsync = self.fdatasync = self._sync
        self.rename = self._rename
        self.unlink = self._unlink

    def cut_power(self) -> None:
        """Puts the disk's content in place of the files. Nothing may be open."""
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
        """The inode behind a name may become another file's."""
        if Path(path).is_file():
            self._keys.pop(Path(path).stat().st_ino, None)
