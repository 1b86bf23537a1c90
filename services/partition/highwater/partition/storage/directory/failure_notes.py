"""Remembers, outside of a log directory, that a write to it has failed.

A failing disk cannot keep a note, and with one log directory there is no other to keep it in. A
note is an empty file in a runtime directory, which must survive only until the kernel restarts:

    <directory>/<32 hexadecimal digits>     a digest of boot id, device and inode of a log directory

The note is lost if that directory does not live as long as the kernel (such as a container's own
file system); `lineage_notes_dir` names one that does.
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
"""Notes of other kernels and of removed directories stay behind; the oldest are removed."""
_MODE: Final = 0o700


class FailureNotes(Protocol):
    """Notes that live as long as the kernel. `place` is a directory's device and inode."""

    def remember(self, place: str) -> None:
        """Notes that a write to the directory has failed; a failure to note it is ignored."""
        ...

    def known(self, place: str) -> bool:
        """Whether a note for the directory exists."""
        ...

    def forget(self, place: str) -> None:
        """Removes the note, because the directory itself records the failure now."""
        ...


class NoNotes:
    """Remembers nothing."""

    def remember(self, place: str) -> None:
        """Does nothing."""

    def known(self, place: str) -> bool:  # noqa: ARG002 - a port's signature.
        """Never true."""
        return False

    def forget(self, place: str) -> None:
        """Does nothing."""


class RuntimeNotes:
    """Writes notes to the first directory that takes them; reads all directories."""

    def __init__(self, directories: Sequence[Path], *, boot_id: str) -> None:
        """Creates the directories when needed. Without a boot id it keeps no notes; lineage then
        proves nothing anyway.
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
    """Where notes are kept: the chosen directory, or /run, the user's runtime directory, /tmp."""
    if chosen is not None:
        return [chosen]
    user = os.environ.get("XDG_RUNTIME_DIR")
    return [
        Path("/run/highwater"),
        *([Path(user, "highwater")] if user else []),
        Path(tempfile.gettempdir(), f"highwater-{os.getuid()}"),
    ]


def _is_ours(directory: Path) -> bool:
    """Whether nobody else can have put a note, or a link, there: everybody may write to /tmp."""
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
