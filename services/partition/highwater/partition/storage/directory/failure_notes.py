"""Remembers outside of a log directory that a write to it has failed.

Nothing can be noted on a disk that fails, and with one log directory there is no other to note it in.
A note is an empty file in a runtime directory, which need not survive more than the kernel:

    <directory>/<32 hexadecimal digits>     a digest of boot id, device and inode of a log directory

Where that directory does not live as long as the kernel (a container's own file system that is made
anew), the note is lost; `lineage_notes_dir` names one that does.
"""

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

NOTES_MAX: Final = 1000
"""Notes of other kernels and of directories that are gone stay behind; the oldest go."""
_MODE: Final = 0o700


class FailureNotes(Protocol):
    """Notes that live as long as the kernel. `place` is a directory's device and inode."""

    def remember(self, place: str) -> None:
        """Notes that a write to the directory has failed; as well as it can be."""
        ...

    def known(self, place: str) -> bool:
        """Whether that was noted and not forgotten."""
        ...

    def forget(self, place: str) -> None:
        """The directory itself says it now."""
        ...


class NoNotes:
    """Remembers nothing."""

    def remember(self, place: str) -> None:
        """Does nothing."""

    def known(self, place: str) -> bool:  # noqa: ARG002 - a port's signature.
        """Never."""
        return False

    def forget(self, place: str) -> None:
        """Does nothing."""


class RuntimeNotes:
    """Notes in the first of some directories that takes them; read in all of them."""

    def __init__(self, directories: Sequence[Path], *, boot_id: str) -> None:
        """Directories are made when they are needed. Without a boot id nothing is noted: then
        nothing is believed either.
        """
        self._directories = directories
        self._boot_id = boot_id

    def remember(self, place: str) -> None:
        """See `FailureNotes`."""
        if not self._boot_id or not place:
            return
        for directory in self._directories:
            with contextlib.suppress(OSError):
                directory.mkdir(mode=_MODE, parents=True, exist_ok=True)
                if _is_ours(directory):
                    _drop_oldest(directory)
                    (directory / self._name(place)).touch()
                    return

    def known(self, place: str) -> bool:
        """See `FailureNotes`."""
        name = self._name(place)
        return any(_is_ours(one) and (one / name).exists() for one in self._directories)

    def forget(self, place: str) -> None:
        """See `FailureNotes`."""
        for directory in self._directories:
            with contextlib.suppress(OSError):
                (directory / self._name(place)).unlink(missing_ok=True)

    def _name(self, place: str) -> str:
        return hashlib.sha256(f"{self._boot_id}\n{place}".encode()).hexdigest()[:32]


def runtime_directories(chosen: Path | None) -> list[Path]:
    """Where notes go: the configured directory, or /run, the user's runtime directory, /tmp."""
    if chosen is not None:
        return [chosen]
    user = os.environ.get("XDG_RUNTIME_DIR")
    return [
        Path("/run/highwater"),
        *([Path(user, "highwater")] if user else []),
        Path(tempfile.gettempdir(), f"highwater-{os.getuid()}"),
    ]


def _is_ours(directory: Path) -> bool:
    """Whether nobody else can have put a note, or a link, there: /tmp is everybody's."""
    try:
        found = directory.lstat()
    except OSError:
        return False
    others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not others


def _drop_oldest(directory: Path) -> None:
    notes = [(path.stat().st_mtime_ns, path) for path in directory.iterdir()]
    for _, path in sorted(notes)[: max(len(notes) - NOTES_MAX + 1, 0)]:
        path.unlink(missing_ok=True)
