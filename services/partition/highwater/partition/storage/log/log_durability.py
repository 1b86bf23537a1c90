"""What part of a log is surely on disk: fsync and the recovery point.

Order, for a power cut: an epoch's entry in the checkpoint is synced before the recovery point
passes the epoch's first record, because recovery reads no epochs from batches below that point.
"""

from highwater.partition.storage.config import NEVER
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.filesystem import sync_if_present
from highwater.partition.storage.log.flush import FlushJob
from highwater.partition.storage.log.log_epochs import LogEpochs
from highwater.partition.storage.log.log_segments import LogSegments
from highwater.partition.storage.log.place import LogPlace


class LogDurability:
    """The recovery point of one log, and the flushes that move it."""

    __slots__ = (
        "_epochs",
        "_names_changed",
        "_place",
        "_segments",
        "flush_at_offset",
        "flushed_ms",
        "recovery_point",
    )

    def __init__(
        self,
        place: LogPlace,
        segments: LogSegments,
        epochs: LogEpochs,
        *,
        recovery_point: int,
        files_created: bool,
    ) -> None:
        """`files_created`: new file names in the directory may not be on disk yet."""
        self._place = place
        self._segments = segments
        self._epochs = epochs
        self._names_changed = files_created
        self.recovery_point = recovery_point
        """Everything before this offset is surely on disk."""
        self.flush_at_offset = NEVER
        """When the log end offset reaches it, flush.messages asks for a flush."""
        self.flushed_ms = place.clock.monotonic_ms()
        """When the last flush ended, on the monotonic clock."""
        self.set_flush_offset()

    def names_changed(self) -> None:
        """Note that files were made or renamed: the next flush syncs the directory."""
        self._names_changed = True

    def begin_flush(self, up_to: int | None = None) -> FlushJob | None:
        """Prepare an fsync up to an offset (default: the log end offset); None if it is done
        or the log is deleted. Run the job on any thread, then `complete_flush` on the owner's.
        """
        end = self._segments.end_offset
        offset = end if up_to is None else min(up_to, end)
        life, epochs = self._place.life, self._epochs
        if life.ended or (offset <= self.recovery_point and not epochs.unsynced):
            return None
        active = self._segments.all[-1]
        segments = [
            segment
            for segment in self._segments.from_offset(self.recovery_point)
            if segment.base_offset < offset
        ]
        # A changed checkpoint is a new file under the same name.
        names_changed = self._names_changed or epochs.unsynced
        epochs_path = epochs.path if epochs.unsynced else None
        self._names_changed = epochs.unsynced = False
        try:
            return FlushJob(
                segments,
                offset,
                sealed=sum(segment is not active for segment in segments),
                truncations=life.truncations,
                epochs=epochs_path,
                directory=self._place.directory if names_changed else None,
                filesystem=self._place.filesystem,
                life=life,
            )
        except OSError as error:
            raise LogDirFailure(self._place.directory, error) from error

    def complete_flush(self, job: FlushJob) -> None:
        """Move the recovery point to the end of `job`, unless the log was truncated since."""
        job.release()
        self.flushed_ms = self._place.clock.monotonic_ms()
        if job.truncations == self._place.life.truncations and job.offset > self.recovery_point:
            self.recovery_point = job.offset
        self.set_flush_offset()

    def flush(self, up_to: int | None = None) -> None:
        """Sync the log up to an offset, on this thread. Raises LogDirFailure."""
        job = self.begin_flush(up_to)
        if job is not None:
            job.run()
            self.complete_flush(job)

    def sync_transactions(self) -> None:
        """Sync the active segment's transaction index, of which a start after an orderly stop would
        not notice that entries are missing. Raises OSError.
        """
        index = self._segments.active.transactions
        if len(index):
            sync_if_present(self._place.filesystem, index.file.path)

    def flush_later(self, up_to: int) -> None:
        """As `flush`, on another thread."""
        job = self.begin_flush(up_to)
        if job is not None:
            self._place.environment.run_later(job.run, lambda: self.complete_flush(job))

    def rolled(self, base_offset: int) -> None:
        """The segment before `base_offset` is sealed: sync it on another thread."""
        self._names_changed = True
        self.flush_later(base_offset)

    def cut(self, end: int) -> None:
        """The log was truncated to `end`."""
        # A power cut may bring removed files back: sync the directory before the recovery point
        # passes them.
        self._names_changed = True
        self.recovery_point = min(self.recovery_point, end)
        self.set_flush_offset()

    def emptied(self, offset: int) -> None:
        """The log was emptied and begins at `offset`."""
        self._names_changed = True
        self.recovery_point = offset
        self.set_flush_offset()

    def relocated(self) -> None:
        """The log's files are in another log directory, and all of them are on disk there."""
        self._names_changed = False
        self.recovery_point = self._segments.end_offset
        self.set_flush_offset()

    def set_flush_offset(self) -> None:
        """Set `flush_at_offset` after a change of the recovery point or of flush.messages."""
        messages = self._place.config.flush_messages
        self.flush_at_offset = NEVER if messages == NEVER else self.recovery_point + messages
