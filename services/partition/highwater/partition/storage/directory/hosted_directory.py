"""A log directory in use: its logs' environment, worker and checkpoints.

`open_logs` runs once, on any thread, before `start`; everything else on the owner's thread.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial

from highwater.model.ids import NO_TOPIC_ID, TopicId
from highwater.model.time import Clock
from highwater.partition.storage import checkpoint
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.directory.deletion import DeletionQueue, Remover
from highwater.partition.storage.directory.handle_limits import HandleLimits
from highwater.partition.storage.directory.log_directory import (
    DirectoryOffsets,
    LogDirectory,
    Partition,
)
from highwater.partition.storage.directory.made_anew import MadeAnew
from highwater.partition.storage.directory.tail_read_ahead import TailReadAhead
from highwater.partition.storage.directory.worker import DirectoryWorker
from highwater.partition.storage.errors import LogDirFailure, StorageError
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.log.stall import HUNG_WRITE_MS, StallMonitor
from highwater.partition.storage.names import (
    PARTITION_METADATA,
    parse_partition_directory,
    stray_directory,
)
from highwater.partition.storage.segment.handles import HandleClock


class HostedLog:
    """A log, its directory and its topic id."""

    __slots__ = ("directory", "flush_waiters", "flushing", "log", "topic_id")

    def __init__(self, log: PartitionLog, directory: "HostedDirectory", topic_id: TopicId) -> None:
        """`topic_id` is `NO_TOPIC_ID` for logs from before Kafka 2.8."""
        self.log = log
        self.directory = directory
        self.topic_id = topic_id
        self.flushing = False
        self.flush_waiters: list[Callable[[], None]] = []

    @property
    def name(self) -> str:
        """The name of the log's directory."""
        return os.path.basename(self.log.directory)


def _high_watermarks(entries: Sequence[HostedLog]) -> dict[Partition, int]:
    logs = [entry.log for entry in entries]
    return {(log.topic, log.partition): log.stored_high_watermark for log in logs}


def _nothing() -> None:
    """Nothing is left to do on the owner's thread."""


class HostedDirectory:
    """See the module. Implements `LogEnvironment` for its logs."""

    def __init__(
        self,
        index: int,
        directory: LogDirectory,
        *,
        clock: Clock,
        post: Callable[[Callable[[], None]], None],
        on_failure: Callable[[int, LogDirFailure], None],
        entries: Callable[["HostedDirectory"], list[HostedLog]],
        limits: HandleLimits,
    ) -> None:
        """`entries` gives a directory's usable logs now."""
        self.index = index
        self.directory = directory
        self.filesystem = directory.filesystem
        self.files = HandleClock(limits.files)
        self.maps = HandleClock(limits.maps)
        self.deletions = DeletionQueue()
        self.stall = StallMonitor()
        self.failure: LogDirFailure | None = None
        """Why it is offline; None while it is online."""
        self.names: set[str] | None = None
        """Names of all partitions' directories here; None if the directory was never readable."""
        self.log_count = 0
        self.cache_intact = False
        """Whether every write of the last process is still there; set it before `open_logs`."""
        self.on_loss: Callable[[], None] = _nothing
        """`open_logs` calls it before cutting a log that lost more than a killed process leaves
        unwritten (`recovery.findings`), once per such log. Raises LogDirFailure."""
        self.closed_clean = False
        """After `close`: everything is on disk, nothing failed, no write was unfinished."""
        self._cleaned: dict[Partition, int] = {}
        """The content of the cleaner's checkpoint."""
        self._unopened: dict[Partition, int] = {}
        """Its entries of logs that could not be opened."""
        self._names_changed = False
        """Whether logs were created since the directory was last synced."""
        self._checkpoints_stale = False
        """Whether `checkpoint_soon` was called and its write has not begun."""
        self._checkpoints_begun = False
        """Whether its write runs, or is queued."""
        self._checkpoint_waiters: list[Callable[[], None]] = []
        """Called when the write has ended that begins next."""
        self._high_watermarks: dict[Partition, int] = {}
        """The last values written, or queued for writing."""
        self._writing_high_watermarks = False
        self._entries = entries
        self._clock = clock
        self._post = post
        self._on_failure = on_failure
        self._worker: DirectoryWorker | None = None
        self._writer: DirectoryWorker | None = None
        """Created when the directory stalls for the first time."""
        self.remover = Remover(
            self.deletions,
            new_worker=self._new_worker,
            now_ms=clock.monotonic_ms,
            is_online=lambda: self.failure is None,
        )
        self._made_anew = MadeAnew(self.filesystem, self._path_of)

    # -- start and stop -------------------------------------------------------------------------

    def open_logs(self, config: LogConfig) -> tuple[list[HostedLog], dict[str, StorageError]]:
        """Opens and recovers all logs; returns the usable ones, and the errors of others by name.

        If the directory itself fails, `failure` is set and there are no logs.
        """
        logs: list[HostedLog] = []
        unusable: dict[str, StorageError] = {}
        try:
            offsets = self.directory.offsets()
            self._cleaned = self.directory.cleaned()
            partitions = self.directory.partitions()
            self.names = {f"{stem}-{number}" for stem, number in partitions}
            offsets = self._made_anew.without_others(partitions, offsets)
            for partition in self._made_anew.marked:
                self._cleaned.pop(partition, None)
            for path in self.directory.deleted_directories():
                self.deletions.add([path], self._clock.monotonic_ms())
            tails = TailReadAhead(
                self.filesystem, [self._path_of(partition) for partition in partitions]
            )
            for number, partition in enumerate(partitions):
                if not self.directory.clean:
                    tails.opening(number)
                try:
                    logs.append(self._open_log(partition, config, offsets))
                except LogDirFailure:
                    raise
                except StorageError as error:
                    if partition in self._cleaned:
                        self._unopened[partition] = self._cleaned[partition]
                    unusable[f"{partition[0]}-{partition[1]}"] = error
            self._check_high_watermarks(logs, offsets)
        except OSError as error:
            self.failure = LogDirFailure(self.directory.path, error)
        except LogDirFailure as failure:
            self.failure = failure
        if self.failure is not None:
            for entry in logs:
                entry.log.close(clean=False)
            return [], unusable
        return logs, unusable

    def _check_high_watermarks(self, logs: Sequence[HostedLog], offsets: DirectoryOffsets) -> None:
        """A log is never cut below its high watermark: one that ends before it has lost records.

        Writes the true offsets at once; otherwise the next start would report the loss again.
        """
        if any(
            offsets.high_watermarks.get((log.topic, log.partition), 0) > log.log_end_offset
            for log in (entry.log for entry in logs)
        ):
            self.on_loss()
            self.directory.write_high_watermarks(
                {**offsets.high_watermarks, **_high_watermarks(logs)}
            )

    def _open_log(
        self,
        partition: Partition,
        config: LogConfig,
        offsets: DirectoryOffsets,
    ) -> HostedLog:
        path = self._path_of(partition)
        topic_id = self.topic_id_of(os.path.basename(path))
        log = PartitionLog.open(
            path,
            topic=partition[0],
            partition=partition[1],
            config=config,
            clock=self._clock,
            environment=self,
            clean=self.directory.clean,
            recovery_point=offsets.recovery_points.get(partition, 0),
            log_start_offset=offsets.log_starts.get(partition, 0),
            first_dirty=self._cleaned.get(partition, 0),
            high_watermark=offsets.high_watermarks.get(partition, 0),
            compacted=partition in self._cleaned,
            cache_intact=self.cache_intact,
            on_loss=self.on_loss,
        )
        return HostedLog(log, self, topic_id)

    def _path_of(self, partition: Partition) -> str:
        return os.path.join(self.directory.path, f"{partition[0]}-{partition[1]}")

    def start(self) -> None:
        """Starts the worker."""
        self._worker = self._new_worker()
        for partition in self._made_anew.marked:
            self.checkpoint_soon(self._made_anew.unmark(partition))

    def _new_worker(self) -> DirectoryWorker:
        return DirectoryWorker(
            self.directory.path,
            post=self._post,
            on_failure=self._failed,
            monotonic_ms=self._clock.monotonic_ms,
        )

    def close(
        self, entries: Sequence[HostedLog], node_epoch: int, *, timeout_s: float
    ) -> LogDirFailure | None:
        """Closes the logs and marks the directory clean if all went well; else the failure.

        An unfinished write leaves the directory not clean, without being a failure. The directory
        stays locked.
        """
        failure = self.failure
        for worker in (self._writer, self._worker, self.remover.worker):
            if worker is not None and not worker.stop(timeout_s=timeout_s):
                hung = OSError(f"its worker did not end within {timeout_s} s")
                failure = failure or LogDirFailure(self.directory.path, hung)
        # The writer's last write may not be noted in its log yet: that takes the owner's thread.
        clean = failure is None and not any(entry.log.late_writer.writing for entry in entries)
        for entry in entries:
            try:
                entry.log.close(clean=clean)
            except LogDirFailure as error:
                failure, clean = failure or error, False
        if clean:
            try:
                self.directory.write_offsets(self.offsets(entries))
                cleaned = self._cleaned_now(entries)
                if cleaned != self._cleaned:
                    self.directory.write_cleaned(cleaned)
                self._made_anew.remove_all()
                self.directory.write_clean_shutdown(node_epoch)
                self.closed_clean = True
            except LogDirFailure as error:
                failure = error
        self._worker = self._writer = self.remover.worker = None
        return failure

    # -- logs -----------------------------------------------------------------------------------

    def create(self, name: str, *, topic_id: TopicId, config: LogConfig) -> HostedLog:
        """Creates an empty log. Raises LogDirFailure."""
        parsed = parse_partition_directory(name)
        assert parsed is not None
        path = os.path.join(self.directory.path, name)
        log = PartitionLog.open(
            path,
            topic=parsed[0],
            partition=parsed[1],
            config=config,
            clock=self._clock,
            environment=self,
        )
        own = self._made_anew.created(parsed)
        if own is not None:
            self.checkpoint_soon(own)
        self.write_topic_id(log, topic_id)
        self._names_changed = True
        if self.names is not None:
            self.names.add(name)
        return HostedLog(log, self, topic_id)

    def write_topic_id(self, log: PartitionLog, topic_id: TopicId) -> None:
        """Writes a log's `partition.metadata`. Raises LogDirFailure."""
        path = os.path.join(log.directory, PARTITION_METADATA)
        try:
            checkpoint.write_topic_id(self.filesystem, path, topic_id)
        except OSError as error:
            raise LogDirFailure(path, error) from error

    def topic_id_of(self, name: str) -> TopicId:
        """The topic id in a partition's `partition.metadata`; `NO_TOPIC_ID` if there is none.

        Raises LogDirFailure, CorruptCheckpointError.
        """
        path = os.path.join(self.directory.path, name, PARTITION_METADATA)
        try:
            return checkpoint.read_topic_id(self.filesystem, path) or NO_TOPIC_ID
        except OSError as error:
            raise LogDirFailure(path, error) from error

    def set_aside(self, name: str, token: str) -> None:
        """Renames the directory of a log that is not open. Raises LogDirFailure."""
        path = os.path.join(self.directory.path, name)
        try:
            self.filesystem.rename(
                path, os.path.join(self.directory.path, stray_directory(name, token))
            )
        except OSError as error:
            raise LogDirFailure(path, error) from error
        if self.names is not None:
            self.names.discard(name)
        partition = parse_partition_directory(name)
        if partition is not None:
            self._unopened.pop(partition, None)
        self.checkpoint_soon()

    def flush(self, entry: HostedLog, done: Callable[[], None] | None = None) -> None:
        """Syncs a log up to its present end, then calls `done`.

        Each log has one sync at a time; calls that come meanwhile share the next one. Raises
        LogDirFailure; `done` is never called if the directory fails later.
        """
        if done is not None:
            entry.flush_waiters.append(done)
        if not entry.flushing:
            self._begin_flush(entry)

    def _begin_flush(self, entry: HostedLog) -> None:
        job = entry.log.durability.begin_flush()
        waiters, entry.flush_waiters = entry.flush_waiters, []
        if job is None:
            for waiter in waiters:
                waiter()
            return
        entry.flushing = True
        self._sync_names()

        def done() -> None:
            entry.flushing = False
            entry.log.durability.complete_flush(job)
            for waiter in waiters:
                waiter()
            if entry.flush_waiters and self.failure is None:
                self._guarded(partial(self._begin_flush, entry))

        self.run_later(job.run, done)

    def offsets(self, entries: Sequence[HostedLog]) -> DirectoryOffsets:
        """The checkpoint values of these logs now."""
        logs = [entry.log for entry in entries]
        return DirectoryOffsets(
            recovery_points={
                (log.topic, log.partition): log.durability.recovery_point for log in logs
            },
            high_watermarks=_high_watermarks(entries),
            # Also where a segment begins: a power cut may bring removed ones back.
            log_starts={
                (log.topic, log.partition): log.log_start_offset
                for log in logs
                if log.log_start_offset
            },
        )

    def checkpoint(self, entries: Sequence[HostedLog], done: Callable[[], None] = _nothing) -> None:
        """Writes the checkpoints and new logs' names on the worker, then calls `done`."""
        self._sync_names()
        self.checkpoint_cleaned(entries)
        offsets = self.offsets(entries)
        self._high_watermarks = dict(offsets.high_watermarks)
        self._made_anew.begins(self._high_watermarks)

        def written() -> None:
            self._made_anew.ended()
            done()

        self.run_later(partial(self.directory.write_offsets, offsets), written)

    def checkpoint_high_watermarks(self, entries: Sequence[HostedLog]) -> None:
        """Writes the high watermarks on the worker, if any has moved and no write is unfinished.

        All values are taken at one time. A truncation or deletion during the write is in the
        next checkpoint, which the worker writes after this one.
        """
        if self._writing_high_watermarks:
            return  # The disk is slow; the next call has newer values.
        offsets = _high_watermarks(entries)
        if offsets != self._high_watermarks:
            self._high_watermarks = offsets
            self._writing_high_watermarks = True
            self._made_anew.begins(offsets, whole=False)
            self.run_later(
                partial(self.directory.write_high_watermarks, offsets),
                self._high_watermarks_written,
            )

    def _high_watermarks_written(self) -> None:
        self._writing_high_watermarks = False
        self._made_anew.ended()

    def _sync_names(self) -> None:
        """Makes new logs' names durable, before any of their records are reported durable."""
        if self._names_changed:
            self._names_changed = False
            self.run_later(self.directory.sync, _nothing)

    def _replace_checkpoints(self) -> None:
        """Writes once for all calls of a loop turn, or of the time since the last write began."""
        online = self._worker is not None and self.failure is None
        self._checkpoints_begun = self._checkpoints_stale and online
        if self._checkpoints_begun:
            self._checkpoints_stale = False
            waiters, self._checkpoint_waiters = self._checkpoint_waiters, []
            self.checkpoint(self._entries(self), partial(self._checkpoints_replaced, waiters))

    def _checkpoints_replaced(self, waiters: Sequence[Callable[[], None]]) -> None:
        self._replace_checkpoints()
        for waiter in waiters:
            waiter()

    def _cleaned_now(self, entries: Sequence[HostedLog]) -> dict[Partition, int]:
        return self._unopened | {
            (entry.log.topic, entry.log.partition): entry.log.cleaning.first_dirty
            for entry in entries
            if entry.log.cleaning.first_dirty
        }

    def checkpoint_cleaned(self, entries: Sequence[HostedLog]) -> None:
        """Writes the cleaner's checkpoint on the worker, if it has changed."""
        cleaned = self._cleaned_now(entries)
        if cleaned != self._cleaned:
            self._cleaned = cleaned
            self.run_later(partial(self.directory.write_cleaned, cleaned), _nothing)

    # -- LogEnvironment -------------------------------------------------------------------------

    def run_later(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Runs `work` on the worker (`LogEnvironment`), unless the directory is offline."""
        assert self._worker is not None, "the directory was not started"
        self._worker.submit(work, partial(self._guarded, done))

    def write_later(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Runs `work` on the writer (`LogEnvironment`)."""
        if self._writer is None:
            self._writer = self._new_worker()
        self._writer.submit(work, partial(self._guarded, done))

    def delete_later(self, paths: Sequence[str], delay_ms: int) -> None:
        """Queues paths for `remove_due` (`LogEnvironment`)."""
        self.deletions.add(paths, self._clock.monotonic_ms() + delay_ms)

    def checkpoint_soon(self, done: Callable[[], None] | None = None) -> None:
        """Writes the checkpoints before the next regular time (`LogEnvironment`), as Kafka does in
        `LogManager.truncateTo` and `asyncDelete`.

        Otherwise a topic created again within seconds would get its predecessor's log start.
        """
        self._checkpoints_stale = True
        if done is not None:
            self._checkpoint_waiters.append(done)
        if not self._checkpoints_begun:
            self._checkpoints_begun = True
            self._post(self._replace_checkpoints)

    @property
    def hangs(self) -> bool:
        """Whether a write of the writer does not end; may be called from any thread."""
        writer = self._writer
        return writer is not None and writer.busy_ms() >= HUNG_WRITE_MS

    @property
    def waiting_jobs(self) -> int:
        """Queued jobs of the worker and the writer."""
        return sum(w.waiting for w in (self._worker, self._writer) if w is not None)

    def _failed(self, failure: LogDirFailure) -> None:
        self._on_failure(self.index, failure)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except LogDirFailure as failure:
            self._failed(failure)
