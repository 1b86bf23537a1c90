"""What of a log is on disk for certain: fsync, the recovery point, the leader epoch checkpoint.

Order for a power cut: an epoch's entry in the checkpoint is on disk before the recovery point passes
the epoch's first record, because nobody looks at the batches below that point for epochs again.
Order for a killed process: the checkpoint has its new content and name before the first record of an
epoch is written, and the indexes and producers on disk are never far behind (`shorten_tail`): a
start on the same kernel reads the log from there on only.

`log.py` has the whole log and its invariants.
"""

import os
from bisect import bisect_right
from typing import Final

from highwater.model.time import Clock
from highwater.partition.storage import checkpoint
from highwater.partition.storage.config import NEVER, LogConfig
from highwater.partition.storage.directory.deletion import LogLife
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.filesystem import unlink_if_present
from highwater.partition.storage.log.environment import LogEnvironment
from highwater.partition.storage.log.flush import FlushJob
from highwater.partition.storage.log.log_reader import LogReader
from highwater.partition.storage.names import DAMAGE, LEADER_EPOCH_CHECKPOINT
from highwater.partition.storage.recovery.loader import LoadedLog
from highwater.partition.storage.recovery.producer_recovery import write_recent

TAIL_ENTRIES: Final = 32
TAIL_BYTES: Final = 1 << 20
"""Behind the last index entry on disk; more is written by `shorten_tail`. Small batches have an
entry every 4 KiB: about 700 of them, a few milliseconds of recovery."""
PRODUCERS_ENTRIES: Final = 128
"""Index entries after which the producers are written again; only headers are read there."""
PRODUCERS_MAX: Final = 1000
"""Of a partition with more the producers are written when a segment ends, off the loop."""


class DurableLog(LogReader):
    """A log that can be made durable; see `PartitionLog`."""

    __slots__ = (
        "_directory_dirty",
        "_epoch",
        "_epochs_unsynced",
        "_epochs_unwritten",
        "_producers_at",
        "_producers_end",
        "flush_at_offset",
        "flushed_ms",
        "life",
        "recovery_point",
        "writing",
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
        self.writing = False
        """Whether the writer thread is at work for this log (`append_later`)."""
        self.recovery_point = loaded.recovery_point
        """Everything before this offset is on disk for certain."""
        self.flush_at_offset = NEVER
        """Once the log end offset reaches it, flush.messages asks for a flush."""
        self.flushed_ms = clock.monotonic_ms()
        """When the last flush ended, by the monotonic clock."""
        self._epoch = self.epochs.latest
        """Of the newest append."""
        self._epochs_unwritten = False
        self._epochs_unsynced = loaded.files_created and len(self.epochs) > 0
        self._directory_dirty = loaded.files_created
        active = loaded.segments[-1]
        self._producers_at = (active.base_offset, 0 if loaded.files_created else len(active.index))
        """Base offset of the active segment and its index entries when producers were written."""
        self._producers_end = 0
        """The log end offset then; 0 if they were not, or are gone since."""
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
        self._epochs_unsynced = self._directory_dirty = True
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
        if self.life.ended or (offset <= self.recovery_point and not self._epochs_unsynced):
            return None
        first = max(bisect_right(self._bases, self.recovery_point) - 1, 0)
        segments = [s for s in self._segments[first:] if s.base_offset < offset]
        directory = self.directory if self._directory_dirty else None
        epochs = (
            os.path.join(self.directory, LEADER_EPOCH_CHECKPOINT) if self._epochs_unsynced else None
        )
        self._directory_dirty = self._epochs_unsynced = False
        try:
            return FlushJob(
                segments,
                offset,
                sealed=sum(s is not self._segments[-1] for s in segments),
                truncations=self.life.truncations,
                epochs=epochs,
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
        if job.truncations == self.life.truncations and job.offset > self.recovery_point:
            self.recovery_point = job.offset
        self._set_flush_offset()

    def flush(self, up_to: int | None = None) -> None:
        """Makes the log durable up to an offset, on this thread. Raises LogDirFailure."""
        job = self.begin_flush(up_to)
        if job is not None:
            job.run()
            self.complete_flush(job)

    @property
    def truncations(self) -> int:
        """How often the log was cut since it was opened."""
        return self.life.truncations

    def note_damage(self, first: int, end: int) -> None:
        """Records from `first` up to `end` are damaged: they are not read any more, and the next
        start knows it. Raises LogDirFailure.
        """
        self.lost = (*self.lost, (first, end))
        self._write_lost()

    def note_healed(self, first: int, end: int) -> None:
        """The records from `first` up to `end` are sound again. Raises LogDirFailure."""
        parts = ((a, min(b, first)) for a, b in self.lost)
        behind = ((max(a, end), b) for a, b in self.lost)
        self.lost = tuple(sorted({(a, b) for a, b in (*parts, *behind) if a < b}))
        self._write_lost()

    def _forget_lost(self, end: int) -> None:
        """The log was cut at `end`; what comes there now is not what was damaged."""
        if any(lost[1] > end for lost in self.lost):
            kept = ((first, min(stop, end)) for first, stop in self.lost)
            self.lost = tuple(lost for lost in kept if lost[0] < lost[1])
            self._write_lost()

    def _write_lost(self) -> None:
        path = os.path.join(self.directory, DAMAGE)
        try:
            if not self.lost:
                unlink_if_present(self._environment.filesystem, path)
                return
            checkpoint.write_ranges(self._environment.filesystem, path, self.lost, durable=False)
        except OSError as error:
            raise LogDirFailure(path, error) from error

    def shorten_tail(self) -> None:
        """Writes what a start after kill -9 would have to find out from the batches: index entries,
        producers. Nothing is synced, and nothing written while there is little of it.

        Raises LogDirFailure.
        """
        segment = self._active
        index = segment.index
        if self.life.ended or self.writing or self._environment.stall.stalled:
            return  # The producers are ahead of a log that is being written.
        try:
            waiting = index.waiting
            if waiting and (
                waiting >= TAIL_ENTRIES or segment.size - index.first_waiting >= TAIL_BYTES
            ):
                index.flush()
            base, entries = self._producers_at
            written = entries if base == segment.base_offset else 0
            if not 0 <= len(index) - written < PRODUCERS_ENTRIES:
                self._producers_at = segment.base_offset, len(index)
                if len(self.producers) <= PRODUCERS_MAX:
                    write_recent(
                        self._environment.filesystem,
                        self.directory,
                        self.log_end_offset,
                        list(self.producers.history()),
                        keep=self._producers_end <= self.high_watermark,
                    )
                    self._producers_end = self.log_end_offset
        except OSError as error:
            raise LogDirFailure(self.directory, error) from error

    def _set_flush_offset(self) -> None:
        messages = self.config.flush_messages
        self.flush_at_offset = NEVER if messages == NEVER else self.recovery_point + messages
