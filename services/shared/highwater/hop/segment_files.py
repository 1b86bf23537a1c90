"""Segment files of a node on this host, opened read-only for sendfile (decision 4).

A log directory is used only if it contains the node's incarnation token. Inode and size of each
opened file are checked; descriptors are shared, counted, and kept open by LRU.
"""

import os
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

INCARNATION_FILE: Final = ".highwater_incarnation"
OPEN_FILES_MAX: Final = 512
FILES_PER_LOOK: Final = 16
"""Files that one `drop_deleted` checks: about 10 us."""


class StaleReferenceError(Exception):
    """The named file or range does not exist, or no longer."""


class NamedFile(Protocol):
    """A segment file as named in the node's answers."""

    @property
    def path(self) -> str:
        """The path, relative to the log directory."""

    @property
    def log_dir(self) -> int:
        """The index of the log directory."""

    @property
    def inode(self) -> int:
        """The file's inode number."""


class OpenFile:
    """One descriptor; closed once it is unused and the LRU has dropped it."""

    __slots__ = ("dropped", "fd", "inode", "size", "users")

    def __init__(self, fd: int) -> None:
        status = os.fstat(fd)
        self.fd = fd
        self.inode = status.st_ino
        self.size = status.st_size
        self.users = 0
        self.dropped = False

    def close_if_unused(self) -> None:
        """Closes after the last use."""
        if self.dropped and self.users == 0:
            os.close(self.fd)


class OpenedRange:
    """A `FileRange` on an open file."""

    __slots__ = ("_file", "fd", "length", "position")

    def __init__(self, file: OpenFile, position: int, length: int) -> None:
        file.users += 1
        self._file = file
        self.fd = file.fd
        self.position = position
        self.length = length

    def release(self) -> None:
        """Ends this use of the file."""
        self._file.users -= 1
        self._file.close_if_unused()


class SegmentFiles:
    """The files of one incarnation of one node."""

    def __init__(self, log_dirs: Sequence[str], incarnation: str) -> None:
        self._log_dirs = [Path(d) for d in log_dirs]
        self._files: OrderedDict[tuple[int, int], OpenFile] = OrderedDict()
        self._unlooked: list[tuple[int, int]] = []
        """Files that `drop_deleted` still has to check in this round."""
        self.readable = bool(log_dirs) and all(token_in(d) == incarnation for d in self._log_dirs)

    def open(self, named: NamedFile, position: int, length: int) -> OpenedRange:
        """Opens a range; raises StaleReferenceError if the file is not the named one."""
        # Each log directory may be a separate file system, with separate inode numbers.
        key = (named.log_dir, named.inode)
        file = self._files.get(key)
        end = position + length
        if file is not None and file.size < end:
            file.size = os.fstat(file.fd).st_size
        if file is None:
            file = self._open(named)
        else:
            self._files.move_to_end(key)
        if file.size < end:
            raise StaleReferenceError(f"{named.path} has {file.size} bytes, {end} were promised")
        return OpenedRange(file, position, length)

    @property
    def open_files(self) -> int:
        """Files that are open, or kept open for the next fetch."""
        return len(self._files)

    def drop_deleted(self) -> None:
        """Checks a few files, the next ones at each call, and closes deleted ones.

        Open descriptors would keep their disk space. Called a few times a second.
        """
        for _ in range(min(FILES_PER_LOOK, len(self._files))):
            if not self._unlooked:
                self._unlooked = list(self._files)
            key = self._unlooked.pop()
            file = self._files.get(key)
            if file is not None and os.fstat(file.fd).st_nlink == 0:
                self._drop(key)

    def _drop(self, key: tuple[int, int]) -> None:
        file = self._files.pop(key)
        file.dropped = True
        file.close_if_unused()

    def _open(self, named: NamedFile) -> OpenFile:
        relative = Path(named.path)
        if named.log_dir >= len(self._log_dirs) or relative.is_absolute() or ".." in relative.parts:
            raise StaleReferenceError(f"{named.path} is outside the log directories")
        path = self._log_dirs[named.log_dir] / relative
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise StaleReferenceError(str(error)) from error
        file = OpenFile(fd)
        if file.inode != named.inode:
            os.close(fd)
            raise StaleReferenceError(f"{path} is another file now")
        self._files[named.log_dir, named.inode] = file
        if len(self._files) > OPEN_FILES_MAX:
            self._drop(next(iter(self._files)))
        return file

    def close(self) -> None:
        """Drops all files; files in use close after their last range."""
        for key in list(self._files):
            self._drop(key)


def token_in(directory: Path) -> str | None:
    """The incarnation whose directory it is; None if this process may not read that."""
    try:
        return (directory / INCARNATION_FILE).read_text(errors="replace").strip()
    except OSError:
        return None
