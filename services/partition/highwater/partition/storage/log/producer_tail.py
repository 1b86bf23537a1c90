"""Keeps `.highwater_producers` close behind the end of a log, for a start after kill -9.

The file is made on the directory's worker and gets its name on the owner's thread, which also cuts
the log: so whatever has the name tells of batches that are in the log, all of those before its offset
and none behind it, at whatever moment the process ends.

* What it holds is gathered between appends, when the producers are as the log is.
* Whoever cuts the log removes files that tell of more (`load_newest_snapshot`) before anything new is
  written there. A file that was under way then never gets the name: `LogLife.truncations` has grown.
* The worker writes to a descriptor of the directory, under a name that every start removes. If the log
  is deleted meanwhile, and one of the same name made, that one never sees the file.
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
"""Index entries after which the producers are written again: 512 KiB and more, of which a start reads
headers only."""
PRODUCERS_PER_ENTRY: Final = 8
"""So many producers put it off by one more index entry, so that at the most half as much is written of
producers as of records: 46 bytes for each of five batches, 4 KiB for an entry."""

Place = tuple[int, int]
"""Base offset of the active segment, and its index entries."""


class ProducerTail:
    """One log's; see the module. Owned by the owner of the log, until `close`."""

    __slots__ = ("_directory", "_end", "_environment", "_job", "_life", "_written")

    def __init__(
        self, environment: LogEnvironment, directory: str, life: LogLife, *, written: Place
    ) -> None:
        """`written`: up to where a file that is there may be taken to reach."""
        self._environment = environment
        self._directory = directory
        self._life = life
        self._written = written
        self._end = 0
        """The offset of the file that this object has written; 0 if none, or it is gone since."""
        self._job: _TailJob | None = None
        """Under way: at most one."""

    def follow(
        self,
        producers: ProducerStates,
        *,
        place: Place,
        end_offset: int,
        high_watermark: Callable[[], int],
    ) -> None:
        """Begins to write the producers if the log has grown enough since. Raises OSError.

        `producers` are those of the log up to `end_offset`, its present end. `high_watermark` is
        asked when the file is there: what it replaces is kept if it was committed.
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
        """The log was cut to end at an offset: files that tell of more are gone."""
        if self._end > end_offset:
            self._end = 0

    def close(self) -> None:
        """Nothing gets its name any more."""
        self._job = None

    def _publish(self, job: "_TailJob", high_watermark: int) -> None:
        if self._job is not job:
            return
        self._job = None
        if job.truncations != self._life.truncations or self._environment.stall.stalled:
            return  # The next one takes the same temporary name.
        rename = self._environment.filesystem.rename
        recent = os.path.join(self._directory, RECENT_PRODUCERS)
        try:
            if self._end <= high_watermark:
                # A log is not cut below it; a truncation then need not read headers from the last
                # roll on.
                with contextlib.suppress(FileNotFoundError):
                    rename(recent, os.path.join(self._directory, COMMITTED_PRODUCERS))
            rename(recent + TEMPORARY_SUFFIX, recent)
        except OSError as error:
            raise LogDirFailure(self._directory, error) from error
        self._end = job.offset


class _TailJob:
    """One file, to be written on another thread under its temporary name."""

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
        """On the owner's thread. Raises OSError."""
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
        """Writes the file, not durably. Raises LogDirFailure."""
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
