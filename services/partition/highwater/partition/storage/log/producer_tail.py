"""Keeps `.highwater_producers` close to the end of a log, for a start after kill -9.

The directory's worker writes the file; the owner's thread, which also truncates the log, gives it
its name. So a file with that name describes exactly the batches in the log before its offset, no
matter when the process ends.

* Its content is taken between appends, when the producer states match the log.
* A truncation removes files that describe more (`load_newest_snapshot`) before anything new is
  written. A file that was being written then never gets the name: `LogLife.truncations` has grown.
* The worker writes through a descriptor of the directory, under a name that every start removes. If
  the log is deleted and another one of the same name is made meanwhile, that one has no such file.
"""

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Final

from highwater.partition.core.producers import ProducerStates
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.filesystem import write_all
from highwater.partition.storage.log.environment import LogEnvironment
from highwater.partition.storage.log_life import LogLife
from highwater.partition.storage.names import (
    COMMITTED_PRODUCERS,
    RECENT_PRODUCERS,
    TEMPORARY_SUFFIX,
)
from highwater.partition.storage.recovery.producer_recovery import encode_recent

ENTRIES_MIN: Final = 128
"""Index entries after which the producers are written again: 512 KiB and more of records, of which
a start reads only the headers."""
PRODUCERS_PER_ENTRY: Final = 8
"""So many producers delay it by one more index entry. So at most half as many bytes of producers
are written as of records: 46 bytes for each of five batches, 4 KiB for an entry."""

Place = tuple[int, int]
"""Base offset of the active segment, and how many index entries it has."""


class ProducerTail:
    """One log's; see the module. The log's owner owns it, until `close`."""

    __slots__ = ("_directory", "_end", "_environment", "_job", "_life", "_written")

    def __init__(
        self, environment: LogEnvironment, directory: str, life: LogLife, *, written: Place
    ) -> None:
        """`written`: how far an existing file may reach at most."""
        self._environment = environment
        self._directory = directory
        self._life = life
        self._written = written
        self._end = 0
        """The offset of the file that this object wrote; 0 if there is none, or none any more."""
        self._job: _TailJob | None = None
        """The job under way: at most one."""

    def follow(
        self,
        producers: ProducerStates,
        *,
        place: Place,
        end_offset: int,
        high_watermark: Callable[[], int],
    ) -> None:
        """Begin to write the producers if the log has grown enough since. Raises OSError.

        `producers` are those of the log up to `end_offset`, its present end. `high_watermark` is
        called when the file is written: the file that it replaces is kept if it was committed.
        """
        if self._job is not None:
            return
        base, entries = self._written
        grown = place[1] - (entries if base == place[0] else 0)
        if 0 <= grown < max(ENTRIES_MIN, len(producers) // PRODUCERS_PER_ENTRY):
            return
        self._written = place
        job = _TailJob(
            self._environment, self._directory, end_offset, producers.packed(), self._life
        )
        self._job = job
        self._environment.run_later(job.run, lambda: self._publish(job, high_watermark()))

    def cut(self, end_offset: int) -> None:
        """The log was truncated to `end_offset`; files that describe more are removed."""
        if self._end > end_offset:
            self._end = 0

    def close(self) -> None:
        """Make sure that no file gets its name any more."""
        self._job = None

    def _publish(self, job: "_TailJob", high_watermark: int) -> None:
        if self._job is not job:
            return
        self._job = None
        if job.truncations != self._life.truncations or self._environment.stall.stalled:
            return  # The next job uses the same temporary name.
        rename = self._environment.filesystem.rename
        recent = os.path.join(self._directory, RECENT_PRODUCERS)
        try:
            if self._end <= high_watermark:
                # A log is not truncated below the high watermark. So a later truncation need not
                # read the headers since the last roll.
                with contextlib.suppress(FileNotFoundError):
                    rename(recent, os.path.join(self._directory, COMMITTED_PRODUCERS))
            rename(recent + TEMPORARY_SUFFIX, recent)
        except OSError as error:
            raise LogDirFailure(self._directory, error) from error
        self._end = job.offset


class _TailJob:
    """One file that another thread writes under its temporary name."""

    __slots__ = (
        "_directory",
        "_directory_fd",
        "_filesystem",
        "_life",
        "_packed",
        "offset",
        "truncations",
    )

    def __init__(
        self,
        environment: LogEnvironment,
        directory: str,
        offset: int,
        packed: Sequence[bytes],
        life: LogLife,
    ) -> None:
        """Called on the owner's thread. Raises OSError."""
        self._filesystem = environment.filesystem
        self._directory = directory
        self._directory_fd = self._filesystem.open(
            directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        )
        self._packed = packed
        self._life = life
        self.offset = offset
        self.truncations = life.truncations

    def run(self) -> None:
        """Write the file, not durably. Raises LogDirFailure."""
        files = self._filesystem
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        try:
            data = encode_recent(self.offset, self._packed)
            fd = files.open(
                RECENT_PRODUCERS + TEMPORARY_SUFFIX, flags, 0o644, dir_fd=self._directory_fd
            )
            try:
                write_all(files, fd, data, 0)
            finally:
                files.close(fd)
        except OSError as error:
            if self._life.excuses(error):
                return
            raise LogDirFailure(self._directory, error) from error
        finally:
            files.close(self._directory_fd)
