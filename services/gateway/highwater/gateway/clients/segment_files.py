"""Segment files of a node on this host, opened read-only for sendfile (decision 4).

A directory is used only after the node's incarnation token has been found in it. Each opened file
is checked by inode and size; descriptors are shared, counted, and kept open under an LRU.
"""

import os
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

INCARNATION_FILE: Final = ".highwater_incarnation"
OPEN_FILES_MAX: Final = 512


class StaleReferenceError(Exception):
    """The named bytes are not there (any more)."""


class Reference(Protocol):
    """A SegmentReference."""

    path: str
    log_dir: int
    inode: int
    position: int


class OpenFile:
    """One descriptor; closed when nobody uses it and the LRU has dropped it."""

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
        """Ends the use."""
        self._file.users -= 1
        self._file.close_if_unused()


class SegmentFiles:
    """The files of one incarnation of one node."""

    def __init__(self, log_dirs: Sequence[str], incarnation: str) -> None:
        self._log_dirs = [Path(d) for d in log_dirs]
        self._files: OrderedDict[tuple[int, int], OpenFile] = OrderedDict()
        self.readable = bool(log_dirs) and all(_token_in(d) == incarnation for d in self._log_dirs)

    def open(self, reference: Reference, length: int) -> OpenedRange:
        """The range; raises StaleReferenceError if the file is not what was promised."""
        # Inode numbers are unique in a file system, and each directory may be one of its own.
        key = (reference.log_dir, reference.inode)
        file = self._files.get(key)
        end = reference.position + length
        if file is not None and file.size < end:
            file.size = os.fstat(file.fd).st_size
        if file is None:
            file = self._open(reference)
        else:
            self._files.move_to_end(key)
        if file.size < end:
            raise StaleReferenceError(
                f"{reference.path} has {file.size} bytes, {end} were promised"
            )
        return OpenedRange(file, reference.position, length)

    def _open(self, reference: Reference) -> OpenFile:
        relative = Path(reference.path)
        if (
            reference.log_dir >= len(self._log_dirs)
            or relative.is_absolute()
            or ".." in relative.parts
        ):
            raise StaleReferenceError(f"{reference.path} is outside the log directories")
        path = self._log_dirs[reference.log_dir] / relative
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise StaleReferenceError(str(error)) from error
        file = OpenFile(fd)
        if file.inode != reference.inode:
            os.close(fd)
            raise StaleReferenceError(f"{path} is another file now")
        self._files[reference.log_dir, reference.inode] = file
        if len(self._files) > OPEN_FILES_MAX:
            _, oldest = self._files.popitem(last=False)
            oldest.dropped = True
            oldest.close_if_unused()
        return file

    def close(self) -> None:
        """Drops all files; those in use close after their last range."""
        for file in self._files.values():
            file.dropped = True
            file.close_if_unused()
        self._files.clear()


def _token_in(directory: Path) -> str | None:
    try:
        return (directory / INCARNATION_FILE).read_text().strip()
    except OSError:
        return None
