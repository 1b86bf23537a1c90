"""What of a log is on disk for certain: fsync, the recovery point, the leader epoch checkpoint.

`log.py` has the whole log and its invariants.
"""

import os
from bisect import bisect_right

from highwater.model.time import Clock
from highwater.partition.storage import checkpoint
from highwater.partition.storage.config import NEVER, LogConfig
from highwater.partition.storage.deletion import LogLife
from highwater.partition.storage.environment import LogEnvironment
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.flush import FlushJob
from highwater.partition.storage.loader import LoadedLog
from highwater.partition.storage.log_reader import LogReader
from highwater.partition.storage.names import LEADER_EPOCH_CHECKPOINT


class DurableLog(LogReader):
    """A log that can be made durable; see `PartitionLog`."""

    __slots__ = (
        "_directory_dirty",
        "_epoch",
        "_epochs_unwritten",
        "_truncations",
        "flush_at_offset",
        "flushed_ms",
        "life",
        "recovery_point",
    )

    def __init__(
        self,
        directory: str,
        loaded: LoadedLog,
        *,
        topic: str,
        partition: int,
        config: LogConfig,
        clock: Clock,
        environment: LogEnvironment,
    ) -> None:
        """Takes over what `LogLoader` found."""
        super().__init__(
            directory,
            loaded,
            topic=topic,
            partition=partition,
            config=config,
            clock=clock,
            environment=environment,
        )
        self.life = LogLife()
        self.recovery_point = loaded.recovery_point
        """Everything before this offset is on disk for certain."""
        self.flush_at_offset = NEVER
        """Once the log end offset reaches it, flush.messages asks for a flush."""
        self.flushed_ms = clock.monotonic_ms()
        """When the last flush ended, by the monotonic clock."""
        self._epoch = self.epochs.latest
        """Of the newest append."""
        self._epochs_unwritten = False
        self._directory_dirty = loaded.files_created
        self._truncations = 0
        self._set_flush_offset()

    def begin_epoch(self, epoch: int) -> None:
        """Notes that `epoch` begins at the log end offset (KIP-101), as a leader does.

        The checkpoint follows with the first append: an epoch without records may be forgotten,
        and a node that comes to lead thousands of partitions does not write as many files.
        """
        self._epochs_unwritten |= self.epochs.assign(epoch, self.log_end_offset)

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Notes that `epoch` begins at `start_offset`, at the first append of a new epoch."""
        if self.epochs.assign(epoch, start_offset) or self._epochs_unwritten:
            self._write_epochs()
        self._epoch = epoch

    def _write_epochs(self) -> None:
        self._epochs_unwritten = False
        path = os.path.join(self.directory, LEADER_EPOCH_CHECKPOINT)
        try:
            checkpoint.write_epochs(
                self._environment.filesystem, path, self.epochs.entries(), durable=False
            )
        except OSError as error:
            raise LogDirFailure(path, error) from error

    def begin_flush(self, up_to: int | None = None) -> FlushJob | None:
        """Prepares an fsync up to an offset (the log end offset if not given); None if it is done
        or the log is deleted.

        Run the job anywhere, then `complete_flush` it here.
        """
        offset = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        if self.life.ended or offset <= self.recovery_point:
            return None
        first = max(bisect_right(self._bases, self.recovery_point) - 1, 0)
        segments = [s for s in self._segments[first:] if s.base_offset < offset]
        directory = self.directory if self._directory_dirty else None
        self._directory_dirty = False
        try:
            return FlushJob(
                segments,
                offset,
                sealed=sum(s is not self._segments[-1] for s in segments),
                truncations=self._truncations,
                directory=directory,
                filesystem=self._environment.filesystem,
                life=self.life,
            )
        except OSError as error:
            raise LogDirFailure(self.directory, error) from error

    def complete_flush(self, job: FlushJob) -> None:
        """Moves the recovery point to what `job` made durable, unless it was truncated since."""
        job.release()
        self.flushed_ms = self.clock.monotonic_ms()
        if job.truncations == self._truncations and job.offset > self.recovery_point:
            self.recovery_point = job.offset
        self._set_flush_offset()

    def flush(self, up_to: int | None = None) -> None:
        """Makes the log durable up to an offset, on this thread. Raises LogDirFailure."""
        job = self.begin_flush(up_to)
        if job is not None:
            job.run()
            self.complete_flush(job)

    def _set_flush_offset(self) -> None:
        messages = self.config.flush_messages
        self.flush_at_offset = NEVER if messages == NEVER else self.recovery_point + messages
