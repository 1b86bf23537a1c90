"""A partition's log: the segments of one directory, appended to and read by one thread.

Lifecycle: `PartitionLog.open` (which recovers) -> append, read, truncate, roll ... -> `close` or
`delete`. No method waits for the network or for another thread. Where the operating system
refuses I/O they raise `LogDirFailure`, after which the log must not be used any more.

Invariants: batches are whole; offsets are contiguous over batches and segments (compacted logs
have gaps); `log_start_offset <= log_end_offset`. What is above the high watermark may be
truncated; roles and the high watermark's rules live with the replica, not here.
"""

import os
from bisect import bisect_right
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Self

from highwater.model.time import Clock
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.errors import (
    CorruptIndexError,
    CorruptLogError,
    LogDirFailure,
    OffsetOutOfRange,
)
from highwater.partition.storage.log import producer_snapshots
from highwater.partition.storage.log.environment import InlineEnvironment, LogEnvironment
from highwater.partition.storage.log.log_cleaning import CleanableLog
from highwater.partition.storage.log.retention import expired_segments
from highwater.partition.storage.names import (
    damaged_directory,
    deleted_directory,
    stray_directory,
)
from highwater.partition.storage.recovery.loader import LogLoader
from highwater.partition.storage.recovery.producer_recovery import (
    newest_snapshot,
    remove_snapshots,
    replay,
)
from highwater.partition.storage.segment.batches import largest_timestamp
from highwater.partition.storage.segment.segment import Segment, SegmentFactory
from highwater.partition.storage.segment.time_index import NO_TIMESTAMP


class PartitionLog(CleanableLog):
    """One replica's log; see the module for its lifecycle and invariants.

    Attributes are for reading; only `high_watermark` is set from outside, by the replica, so that
    the writer of the checkpoint finds it here.
    """

    __slots__ = ()

    @classmethod
    def open(
        cls,
        directory: Path | str,
        *,
        topic: str,
        partition: int,
        config: LogConfig,
        clock: Clock,
        environment: LogEnvironment | None = None,
        clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        first_dirty: int = 0,
        compacted: bool = False,
        cache_intact: bool = False,
    ) -> Self:
        """Opens a partition's directory, which is created if there is none, and recovers it.

        `clean` says that the log directory was shut down in order; `recovery_point`,
        `log_start_offset` and `first_dirty` come from its checkpoints; `compacted` says that the
        cleaner's has the log, so that offsets may be missing. `cache_intact`: the process that had
        it ended, the kernel has not, so that nothing it wrote is lost (see `recovery`). Raises
        LogDirFailure if I/O fails,
        CorruptLogError if sealed data is damaged, UnsupportedFormatError for old messages.
        """
        environment = environment or InlineEnvironment()
        path = os.fspath(directory)
        factory = SegmentFactory(
            path,
            index_bytes=config.segment_index_bytes,
            filesystem=environment.filesystem,
            files=environment.files,
            maps=environment.maps,
        )
        try:
            if not os.path.isdir(path):
                environment.filesystem.mkdir(path)
            loaded = LogLoader(
                path,
                config=config,
                factory=factory,
                now_ms=clock.wall_ms(),
                clean=clean,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                compacted=compacted,
                cache_intact=cache_intact,
            ).load()
        except OSError as error:
            raise LogDirFailure(path, error) from error
        return cls(
            path,
            loaded,
            first_dirty=first_dirty,
            topic=topic,
            partition=partition,
            config=config,
            clock=clock,
            environment=environment,
            factory=factory,
        )

    # -- truncation and deletion ----------------------------------------------------------------

    def truncate_to(self, offset: int) -> int:
        """Cuts the log so that it ends at or before `offset`, at a batch boundary; the new end.

        In place: the caller guarantees that nothing below the high watermark goes. Producers are
        rebuilt from the newest snapshot and the log. Epochs that begin at or after `offset` go even
        if no batch does: they hold nothing, and while they stay a leader that never had them finds
        the logs divergent (Kafka's `UnifiedLog.truncateTo` does the same).
        """
        assert not self.writing
        if offset >= self.log_end_offset:
            self._forget_epochs_from(offset)
            return self.log_end_offset
        self._stop_cleaning(offset)
        if offset <= self._bases[0]:
            self.truncate_fully_and_start_at(offset)
            return offset
        number = bisect_right(self._bases, offset) - 1
        try:
            self._truncate_segment(number, offset)
        except OSError as error:
            raise LogDirFailure(self.directory, error) from error
        return self.log_end_offset

    def _truncate_segment(self, number: int, offset: int) -> None:
        segment = self._segments[number]
        found = self._with_indexes(segment, partial(self._locate, segment, offset))
        position, end = (found[0], min(found[1], offset)) if found else (segment.size, offset)
        if self.gaps:
            end = self._with_indexes(segment, partial(self._end_before, segment, position))
        self._drop(self._segments[:number:-1])
        self._with_indexes(segment, partial(_cut_indexes, segment, end))
        self._environment.filesystem.ftruncate(segment.open(), position)
        segment.size = position
        segment.forget_timestamps()
        entry = segment.index.last_entry()
        segment.bytes_since_index = position - (entry[1] if entry else 0)
        if position:
            self._with_indexes(segment, partial(self._find_largest_timestamp, segment))
        self._truncated(segment, end)

    def _find_largest_timestamp(self, segment: Segment) -> None:
        """After a cut: the last time index entry does not cover the batches after it."""
        timestamp, offset = segment.time_index.last_entry()
        if timestamp > NO_TIMESTAMP and segment.timestamp_of_batch(offset) != timestamp:
            raise CorruptIndexError(f"{segment.time_index.path}: the last entry is wrong")
        start = segment.index.floor(offset) if timestamp > NO_TIMESTAMP else 0
        largest = largest_timestamp(
            self._environment.filesystem.pread, segment.open(), position=start, limit=segment.size
        )
        segment.max_timestamp, segment.max_timestamp_offset = max(
            (timestamp, offset), largest, key=itemgetter(0)
        )

    def _truncated(self, segment: Segment, end: int) -> None:
        """Brings everything that is derived from the batches in line with the new end."""
        self._offsets_fall_to(end)
        self.life.truncations += 1
        self._directory_dirty = True  # The recovery point must not pass names that may come back.
        self._forget_lost(end)
        if self._producers_end > end:
            self._producers_end = 0
        self._positions.clear()
        self.log_end_offset = end
        self.log_start_offset = min(self.log_start_offset, end)
        self.recovery_point = min(self.recovery_point, end)
        self.first_dirty = min(self.first_dirty, end)
        self._sealed_bytes = sum(s.size for s in self._segments[:-1])
        self._activate(segment)
        self._set_flush_offset()
        self._forget_epochs_from(end)
        filesystem = self._environment.filesystem
        self.producers, start = newest_snapshot(
            filesystem,
            self.directory,
            limit=end,
            first=self._bases[0],
            now_ms=self.clock.wall_ms(),
            expiration_ms=self.config.producer_id_expiration_ms,
        )
        replay(filesystem, self._segments, self.producers, start=start, end=end)

    def _offsets_fall_to(self, end: int) -> None:
        """What checkpoints say of offsets behind `end` is not true of what will be written there:
        a start would take it for synced, cleaned or deleted.
        """
        known = (self.recovery_point, self.first_dirty, self.log_start_offset, self.high_watermark)
        if end < max(known):
            self._environment.checkpoint_soon()

    def _forget_epochs_from(self, end: int) -> None:
        if self.epochs.truncate_from_end(end):
            self._write_epochs()
        self._epoch = self.epochs.latest

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drops everything; the log is then empty and begins and ends at `offset`.

        Nothing is known of producers then, as in Kafka (`ProducerStateManager`, same name).
        """
        self._stop_cleaning()
        self.life.truncations += 1
        try:
            # Those up to `offset`, too: they tell of what was here, whatever is before it elsewhere.
            remove_snapshots(self._environment.filesystem, self.directory)
            self._drop(self._segments[::-1])
            segment = self._factory.create(offset, now_ms=self.clock.wall_ms())
            self._segments.append(segment)
            self._bases.append(offset)
            self._offsets_fall_to(offset)
            self.log_start_offset = offset
            self.epochs.clear()
            self._write_epochs()
            self._truncated(segment, offset)
        except OSError as error:
            raise LogDirFailure(self.directory, error) from error
        self.recovery_point = offset
        self._set_flush_offset()

    def advance_log_start(self, offset: int) -> None:
        """Nothing before `offset` is to be read any more; segments wholly before it are deleted.

        The caller keeps `offset` at or below the high watermark.
        """
        if offset <= self.log_start_offset:
            return
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)
        self.log_start_offset = offset
        if self.epochs.truncate_from_start(offset):
            self._write_epochs()
        self.delete_segments_before(offset)

    def delete_segments_before(self, offset: int) -> int:
        """Deletes the sealed segments that end at or before `offset`; returns how many.

        Files are renamed now and removed after file.delete.delay.ms, so that readers who hold
        them can finish.
        """
        count = bisect_right(self._bases, offset) - 1
        if count <= 0:
            return 0
        self._stop_cleaning()
        try:
            self._drop(self._segments[:count])
        except OSError as error:
            raise LogDirFailure(self.directory, error) from error
        self._sealed_bytes = sum(s.size for s in self._segments[:-1])
        if self._bases[0] > self.log_start_offset:
            self.log_start_offset = self._bases[0]
            if self.epochs.truncate_from_start(self.log_start_offset):
                self._write_epochs()
        return count

    def apply_retention(self) -> int:
        """Deletes segments that have outlived the topic's retention; returns how many.

        Nothing while the writer thread or the cleaner is at work: the next pass will do.
        """
        if self.writing or self.cleaning is not None:
            return 0
        count = expired_segments(
            self._segments,
            self.log_end_offset,
            config=self.config,
            high_watermark=self.high_watermark,
            now_ms=self.clock.wall_ms(),
            timestamp_of=self._timestamp_for_retention,
        )
        if not count:
            return 0
        if count == len(self._segments):
            self.roll()
        return self.delete_segments_before(self._bases[count])

    def _timestamp_for_retention(self, segment: Segment) -> int:
        """A damaged segment ages by its file: it must not hold up its log's retention, nor the pass
        over all others.
        """
        try:
            return self._with_indexes(segment, segment.largest_timestamp)
        except (CorruptIndexError, CorruptLogError):
            return NO_TIMESTAMP

    def reconfigure(self, config: LogConfig) -> None:
        """Follows changed topic configs; segments that exist keep their index sizes."""
        if not config.compact:
            self._stop_cleaning()
        self.config = config
        self._index_interval = config.index_interval_bytes
        self._factory.index_bytes = config.segment_index_bytes
        self._set_limits()
        self._set_flush_offset()

    def expire_producers(self) -> int:
        """Forgets producers that have been silent for too long; returns how many."""
        return self.producers.expire(self.clock.wall_ms(), self.config.producer_id_expiration_ms)

    def _drop(self, segments: list[Segment]) -> None:
        """Renames the files of some segments out of the way and forgets the segments.

        In the given order, so that a crash in between leaves a log without a hole: from the end
        for truncation, from the start for retention.
        """
        doomed: list[str] = []
        for segment in segments:
            doomed += self._rename_away(segment, snapshot=True)
            number = self._bases.index(segment.base_offset)
            del self._bases[number], self._segments[number]
        if doomed:
            self._environment.delete_later(doomed, self.config.file_delete_delay_ms)

    # -- the end --------------------------------------------------------------------------------

    def close(self, *, clean: bool) -> None:
        """Releases all files. `clean` first completes what is on disk and syncs it, so that the
        next `open` may skip recovery if the whole log directory was closed like that. A log that
        is still being written (`writing`) cannot be closed clean.
        """
        assert not (clean and self.writing)
        try:
            self._stop_cleaning()
            if clean:
                self._active.seal()
                self.flush()
                producer_snapshots.write(
                    self._environment.filesystem,
                    producer_snapshots.snapshot_path(self.directory, self.log_end_offset),
                    list(self.producers.entries()),
                )
        except OSError as error:
            raise LogDirFailure(self.directory, error) from error
        finally:
            for segment in self._segments:
                segment.close()

    def delete(self, token: str) -> None:
        """Renames the directory to `<name>.<token>-delete`, to be removed after the delay.

        `token` is 32 hexadecimal digits that nobody used before. Pinned segments stay readable.
        """
        self._move(deleted_directory(os.path.basename(self.directory), token))
        self._environment.delete_later([self.directory], self.config.file_delete_delay_ms)

    def set_aside(self, token: str) -> None:
        """Renames the directory to `<name>.<token>-stray`, where it stays; else as `delete`."""
        self._move(stray_directory(os.path.basename(self.directory), token))

    def set_damaged_aside(self, token: str) -> None:
        """Renames the directory to `<name>.<token>-damaged`, where it stays; else as `delete`."""
        self._move(damaged_directory(os.path.basename(self.directory), token))

    def _move(self, name: str) -> None:
        target = os.path.join(os.path.dirname(self.directory), name)
        self._stop_cleaning()
        self.life.ended = True
        try:
            self._environment.filesystem.rename(self.directory, target)
        except OSError as error:
            raise LogDirFailure(self.directory, error) from error
        self.directory = target
        for segment in self._segments:
            segment.moved(target)
            segment.close()


def _cut_indexes(segment: Segment, end: int) -> None:
    """Drops the index entries that lead to `end` or beyond."""
    segment.index.truncate(end)
    segment.time_index.truncate(end)
