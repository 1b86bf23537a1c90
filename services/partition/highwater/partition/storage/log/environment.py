"""What a log gets from outside: files, limits on open handles, and work on other threads."""

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
"""Attempts to remove a deleted log's directory: a snapshot that is just being written
(`producer_snapshots.SnapshotJob`) may add or rename a file in it."""
_DISTURBED: Final = frozenset({errno.ENOENT, errno.ENOTEMPTY})


class LogEnvironment(Protocol):
    """The logs of one directory share it. Only the logs' owner thread calls it."""

    filesystem: FileSystem
    files: HandleClock
    maps: HandleClock
    stall: StallMonitor

    def write_later(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """As `run_later`, on a thread that only writes to stalled logs."""
        ...

    def run_later(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Run `work` on another thread, then `done` on the owner's.

        `work` uses files only, never a log's fields. If it raises `LogDirFailure`, the directory
        goes offline and `done` is not called.
        """
        ...

    def delete_later(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove files or whole directories on another thread, at least `delay_ms` from now."""
        ...

    def checkpoint_soon(self, done: Callable[[], None] | None = None) -> None:
        """Write the checkpoints soon, with the offsets as they are by then, and then call `done`.

        For a log that was truncated or is gone: what they say of it is not true of the records that
        take the same offsets. And for a log start offset that has to outlive a crash. `done` is
        called on the owner's thread, never if the directory fails.
        """
        ...


class InlineEnvironment:
    """Does everything at once on the caller's thread; for tools and tests of a single log."""

    def __init__(
        self,
        filesystem: FileSystem | None = None,
        *,
        open_files: int = OPEN_FILES_DEFAULT,
        open_maps: int = OPEN_MAPS_DEFAULT,
    ) -> None:
        """`open_files` limits descriptors, `open_maps` mapped indexes."""
        self.filesystem = filesystem or FileSystem()
        self.files = HandleClock(open_files)
        self.maps = HandleClock(open_maps)
        self.stall = StallMonitor()

    def run_later(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Run both now."""
        work()
        done()

    def write_later(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Run both now."""
        work()
        done()

    def delete_later(self, paths: Sequence[str], delay_ms: int) -> None:  # noqa: ARG002  # the port's
        """Remove now, whatever the delay."""
        for path in paths:
            remove(path)

    def checkpoint_soon(self, done: Callable[[], None] | None = None) -> None:
        """Write nothing: a single log has no checkpoints."""
        if done is not None:
            done()


def remove(path: str) -> None:
    """Remove a file or a whole directory, unless it is gone already. Raises OSError."""
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
