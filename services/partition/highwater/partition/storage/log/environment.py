"""What a log needs around it: files, limits on open handles, and work done on other threads."""

import errno
import os
import shutil
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.stall import StallMonitor
from highwater.partition.storage.segment.handles import HandleClock

OPEN_FILES_DEFAULT = 4096
OPEN_MAPS_DEFAULT = 1024
REMOVALS_MAX: Final = 3
"""Attempts at a deleted log's directory: a snapshot that was under way may come into it, or get its
name, just then (`producer_snapshots.SnapshotJob`)."""
_DISTURBED: Final = frozenset({errno.ENOENT, errno.ENOTEMPTY})


class LogEnvironment(Protocol):
    """Shared by the logs of one directory. Called by the logs' owner thread only."""

    filesystem: FileSystem
    files: HandleClock
    maps: HandleClock
    stall: StallMonitor

    def write_later(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """As `run_later`, on a thread that does nothing but writes to stalled logs."""
        ...

    def run_later(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Runs `work` on another thread, then `done` on the owner's.

        `work` touches files only, never a log's fields. If it raises `LogDirFailure` the
        directory goes offline and `done` is not called.
        """
        ...

    def delete_later(self, paths: Sequence[str], delay_ms: int) -> None:
        """Removes files or whole directories on another thread, not before `delay_ms` is over."""
        ...

    def checkpoint_soon(self) -> None:
        """A log was cut or is gone: what the checkpoints on disk say of it must not be believed
        of the records that come in its place.
        """
        ...


class InlineEnvironment:
    """Does everything at once on the caller's thread: for tools and tests of a single log."""

    def __init__(
        self,
        filesystem: FileSystem | None = None,
        *,
        open_files: int = OPEN_FILES_DEFAULT,
        open_maps: int = OPEN_MAPS_DEFAULT,
    ) -> None:
        """Limits are numbers of descriptors and of mapped indexes."""
        self.filesystem = filesystem or FileSystem()
        self.files = HandleClock(open_files)
        self.maps = HandleClock(open_maps)
        self.stall = StallMonitor()

    def run_later(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Runs both now."""
        work()
        done()

    def write_later(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Runs both now."""
        work()
        done()

    def delete_later(self, paths: Sequence[str], delay_ms: int) -> None:  # noqa: ARG002  # the port's
        """Removes now, whatever the delay."""
        for path in paths:
            remove(path)

    def checkpoint_soon(self) -> None:
        """A single log has no checkpoints."""


def remove(path: str) -> None:
    """Removes a file or a whole directory; fine if it is gone already. Raises OSError."""
    attempts = REMOVALS_MAX
    while os.path.isdir(path):
        attempts -= 1
        try:
            shutil.rmtree(path)
        except OSError as error:
            if not attempts or error.errno not in _DISTURBED:
                raise
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
