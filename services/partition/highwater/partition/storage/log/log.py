"""A partition's log: the segments of one directory, appended to and read by one thread.

Lifecycle: `PartitionLog.open` (which recovers) -> append, read, truncate, roll ... -> `close` or
`delete`. No method waits for the network or for another thread. Where the operating system
refuses I/O they raise `LogDirFailure`, after which the log must not be used any more.

Invariants: batches are whole; offsets are contiguous over batches and segments (compacted logs
have gaps); `log_start_offset <= log_end_offset`. What is above the high watermark may be
truncated; roles and the high watermark's rules live with the replica, not here.

The log is put together from parts, each of which owns what it holds (Kafka's `UnifiedLog` has
`LogSegments`, `ProducerStateManager`, `LeaderEpochFileCache` in the same way):

    log_segments      the segments, log start offset, log end offset
    lost_ranges       damaged records
    log_epochs        leader epochs and their checkpoint
    log_durability    the recovery point
    log_producers     idempotent producers and their snapshots
    log_cleaning      how far the log is compacted
    log_reader, log_writer, late_writer, segment_roll, log_truncation, log_deletion ...
                      what is done with them
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

from highwater.model.time import Clock
from highwater.partition.core.producers import ProducerStates
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.log.append_info import LogAppendInfo
from highwater.partition.storage.log.environment import InlineEnvironment, LogEnvironment
from highwater.partition.storage.log.flush import FlushJob
from highwater.partition.storage.log.log_cleaning import Cleaning
from highwater.partition.storage.log.log_parts import LogParts
from highwater.partition.storage.log.log_slice import LogSlice
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.recovery.loader import LoadedLog, LogLoader
from highwater.partition.storage.segment.segment import Segment, SegmentFactory, SegmentSpan


class PartitionLog:
    """One replica's log; see the module for its lifecycle, invariants and parts.

    Attributes are for reading. Only `high_watermark` is set from outside, by the replica, so that
    the writer of the checkpoint finds it here, and `cleaning` and `first_dirty`, by the cleaner.
    """

    __slots__ = (
        "_cleaning",
        "_closing",
        "_deletion",
        "durability",
        "_epochs",
        "late_writer",
        "_lost",
        "_place",
        "_producers",
        "_reader",
        "_roll",
        "_search",
        "extent",
        "_truncation",
        "_writer",
        "damaged",
        "epochs",
        "high_watermark",
        "life",
        "partition",
        "recovered_segments",
        "stall",
        "topic",
        "truncated_bytes",
    )

    def __init__(self, loaded: LoadedLog, parts: LogParts, *, topic: str, partition: int) -> None:
        """Of what `LogLoader` found, and parts that were made of it."""
        self.topic = topic
        self.partition = partition
        self.high_watermark = loaded.log_start_offset
        self.recovered_segments = loaded.recovered_segments
        self.truncated_bytes = loaded.truncated_bytes
        self.damaged = loaded.damaged
        self.epochs = parts.epochs.cache
        """The leader epochs of the log's batches, and one that has begun since."""
        self.life = parts.place.life
        """For work on other threads."""
        self.stall = parts.place.environment.stall
        """Whether writes to the log's directory hang: then `append_later` instead of `append`."""
        # Parts that the hot paths of Produce, Fetch and replication ask themselves: a property of
        # this class costs 60 ns more than an attribute of theirs.
        self.durability = parts.durability
        self.extent = parts.segments
        self.late_writer = parts.late_writer
        self._cleaning = parts.cleaning
        self._closing = parts.closing
        self._deletion = parts.deletion
        self._epochs = parts.epochs
        self._lost = parts.lost
        self._place = parts.place
        self._producers = parts.producers
        self._reader = parts.reader
        self._roll = parts.roll
        self._search = parts.search
        self._truncation = parts.truncation
        self._writer = parts.writer

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
        on_loss: Callable[[], None] = lambda: None,
    ) -> Self:
        """Opens a partition's directory, which is created if there is none, and recovers it.

        `clean` says that the log directory was shut down in order; `recovery_point`,
        `log_start_offset` and `first_dirty` come from its checkpoints; `compacted` says that the
        cleaner's has the log, so that offsets may be missing. `cache_intact`: the process that had
        it ended, the kernel has not, so that nothing it wrote is lost (see `recovery`). `on_loss`:
        see `LogLoader`. Raises LogDirFailure, CorruptLogError, UnsupportedFormatError.
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
                on_loss=on_loss,
            ).load()
        except OSError as error:
            raise LogDirFailure(path, error) from error
        place = LogPlace(path, config=config, clock=clock, environment=environment)
        parts = LogParts(place, loaded, factory=factory, first_dirty=first_dirty)
        return cls(loaded, parts, topic=topic, partition=partition)

    # -- what it is -----------------------------------------------------------------------------

    @property
    def directory(self) -> str:
        """Where the log lies; it changes when the log is deleted."""
        return self._place.directory

    @property
    def config(self) -> LogConfig:
        """The topic's configs, as of the last `reconfigure`."""
        return self._place.config

    @property
    def truncations(self) -> int:
        """How often the log was cut since it was opened."""
        return self._place.life.truncations

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self.extent.start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.extent.end_offset

    @property
    def segments(self) -> Sequence[Segment]:
        """All segments, oldest first, the last one active; not to be changed."""
        return self.extent.all

    @property
    def size_bytes(self) -> int:
        """Bytes in all segments' `.log` files."""
        return self.extent.size_bytes

    def reconfigure(self, config: LogConfig) -> None:
        """Follows changed topic configs; segments that exist keep their index sizes."""
        if not config.compact:
            self._cleaning.stop()
        self._place.config = config
        self._writer.reconfigured(config.index_interval_bytes)
        self._roll.reconfigured()
        self.durability.set_flush_offset()

    # -- append ---------------------------------------------------------------------------------

    def append(self, info: LogAppendInfo) -> None:
        """Writes one group of whole batches at the log end offset, in one writev.

        Idempotent batches are recorded in `producers` before. Rolls first, or between batches,
        where that is due. Raises LogDirFailure; nothing of the group is in the log then.
        """
        self._writer.append(info)

    def append_later(self, info: LogAppendInfo, done: Callable[[], None]) -> bool:
        """`append` on the directory's writer thread; `done` is called when the group is in the log.

        One at a time: while `writing` is true nothing else may change this log. Reads go on. The
        buffers stay as they are until then. `done` is never called if the write fails, then the
        directory goes offline, nor if the log was closed or deleted meanwhile.

        Returns False if the group is in the log already: one that goes across the end of a
        segment, which is rare, is written here and now. A roll before it is made here, too.
        """
        return self.late_writer.append(info, done)

    @property
    def writing(self) -> bool:
        """Whether the writer thread is at work for this log (`append_later`)."""
        return self.late_writer.writing

    def roll(self) -> None:
        """Begins a new segment at the log end offset, unless the active one is empty."""
        assert not self.writing
        if self.extent.active.size:
            self._roll.roll(self.extent.end_offset)
            self._producers.take_due_snapshot()

    # -- read -----------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        end_offset: int,
        min_one_batch: bool = True,
        pass_empty: bool = False,
    ) -> LogSlice | None:
        """Where the batches from the one that holds `offset` on lie, up to `end_offset`.

        `end_offset` is exclusive: the high watermark or the last stable offset. At most
        `max_bytes` of whole batches, but with `min_one_batch` at least the first one. None if
        there is nothing to give. Raises OffsetOutOfRange, CorruptLogError, LogDirFailure, and
        DamagedRecordsError where records are `lost`.

        `pass_empty` is for consumers: a sealed segment that holds nothing more but headers, which
        compaction has left, is given only if nothing follows it. librdkafka takes many answers in
        a row without a record for a sign that a message does not fit. Replicas copy the headers.
        """
        return self._reader.read(offset, max_bytes, end_offset, min_one_batch, pass_empty)

    def load(self, found: LogSlice, done: Callable[[bytes], None]) -> None:
        """Reads a slice on the directory's thread, then calls `done` with its bytes.

        Fewer bytes come if the log was cut meanwhile. If the disk fails, the directory goes
        offline and `done` is never called. Raises LogDirFailure if the file cannot be opened.
        """
        self._reader.load(found, done)

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record that is not older than `timestamp`.

        Searches up to the log end offset; the caller discards what is not committed. None if all
        records are older. Raises LogDirFailure, and CorruptLogError at damage that is not known yet.
        """
        return self._search.first_at_or_after(timestamp)

    def max_timestamp(self) -> tuple[int, int]:
        """(timestamp, offset) of the first record with the largest timestamp; (-1, -1) if none.

        Raises as `offset_for_timestamp` does.
        """
        return self._search.first_with_largest()

    # -- damage ---------------------------------------------------------------------------------

    @property
    def lost(self) -> tuple[tuple[int, int], ...]:
        """[first, end) offsets of records that are known to be damaged; as a rule none."""
        return self._lost.ranges

    @property
    def rotten(self) -> bool:
        """Whether records that may be asked for are known to be damaged."""
        return self._lost.any_from(self.extent.start_offset)

    def note_damage(self, first: int, end: int) -> None:
        """Records from `first` up to `end` are damaged: they are not read any more, and the next
        start knows it. Raises LogDirFailure.
        """
        self._lost.add(first, end)

    # -- leader epochs --------------------------------------------------------------------------

    def note_healed(self, first: int, end: int) -> None:
        """The records from `first` up to `end` are sound again. Raises LogDirFailure."""
        self._lost.healed(first, end)

    def begin_epoch(self, epoch: int) -> None:
        """Notes that `epoch` begins at the log end offset (KIP-101), as a leader does.

        The checkpoint follows with the first append.
        """
        self._epochs.begin(epoch, self.extent.end_offset)

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Notes that `epoch` begins at `start_offset`. Raises LogDirFailure."""
        self._epochs.assign(epoch, start_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as `LeaderEpochCache.end_offset_for` says for this log."""
        return self._epochs.cache.end_offset_for(epoch, self.extent.end_offset)

    # -- durability -----------------------------------------------------------------------------

    @property
    def recovery_point(self) -> int:
        """Everything before this offset is on disk for certain."""
        return self.durability.recovery_point

    @property
    def flush_at_offset(self) -> int:
        """Once the log end offset reaches it, flush.messages asks for a flush."""
        return self.durability.flush_at_offset

    @property
    def flushed_ms(self) -> int:
        """When the last flush ended, by the monotonic clock."""
        return self.durability.flushed_ms

    def begin_flush(self, up_to: int | None = None) -> FlushJob | None:
        """Prepares an fsync up to an offset (the log end offset if not given); None if it is done
        or the log is deleted.

        Run the job anywhere, then `complete_flush` it here.
        """
        return self.durability.begin_flush(up_to)

    def complete_flush(self, job: FlushJob) -> None:
        """Moves the recovery point to what `job` made durable, unless the log was cut since."""
        self.durability.complete_flush(job)

    def flush(self, up_to: int | None = None) -> None:
        """Makes the log durable up to an offset, on this thread. Raises LogDirFailure."""
        self.durability.flush(up_to)

    def shorten_tail(self) -> None:
        """Writes what a start after kill -9 would have to find out from the batches: index entries,
        producers. Nothing is synced, and nothing written while there is little of it.

        Raises LogDirFailure.
        """
        if self.life.ended or self.writing or self.stall.stalled:
            return  # The producers are ahead of a log that is being written.
        try:
            self.extent.active.shorten_unindexed_tail()
            self._producers.write_recent(lambda: self.high_watermark)
        except OSError as error:
            raise LogDirFailure(self.directory, error) from error

    # -- producers ------------------------------------------------------------------------------

    @property
    def producers(self) -> ProducerStates:
        """The idempotent producers: the same object as long as the log; a truncation rebuilds it."""
        return self._producers.states

    def expire_producers(self) -> Iterator[int]:
        """Forgets producers that have been silent for too long; see `ProducerStates.expire`."""
        return self._producers.expire()

    # -- compaction -----------------------------------------------------------------------------

    @property
    def cleaning(self) -> Cleaning | None:
        """The cleaning that is under way; set by the cleaner as long as it is at work here."""
        return self._cleaning.running

    @cleaning.setter
    def cleaning(self, running: Cleaning | None) -> None:
        self._cleaning.running = running

    @property
    def first_dirty(self) -> int:
        """Where the last cleaning has ended; what lies behind it was never cleaned."""
        return self._cleaning.first_dirty

    @first_dirty.setter
    def first_dirty(self, offset: int) -> None:
        self._cleaning.first_dirty = offset

    @property
    def gaps(self) -> bool:
        """Whether offsets may be missing here, by the marker in the directory."""
        return self.extent.gaps

    def mark_gaps(self) -> None:
        """Notes in the directory that offsets may be missing, before the first one does.

        Raises LogDirFailure.
        """
        self._cleaning.mark_gaps()

    def spans(self) -> list[SegmentSpan]:
        """The sealed segments, oldest first. Raises LogDirFailure, CorruptLogError."""
        return self._cleaning.spans()

    def waiting_since(self, first_dirty: int, end: int) -> int | None:
        """The oldest timestamp that dirty segments before `end` begin with; None if none has one."""
        return self._cleaning.waiting_since(first_dirty, end)

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Puts `new`, whose files are in the directory, in the place of sealed neighbours; readers
        that hold their files read on. Raises LogDirFailure.
        """
        self._cleaning.replace_segments(old, new)

    # -- truncation and deletion ----------------------------------------------------------------

    def truncate_to(self, offset: int) -> int:
        """Cuts the log so that it ends at or before `offset`, at a batch boundary; the new end.

        In place: the caller guarantees that nothing below the high watermark goes. Epochs that
        begin at or after `offset` go even if no batch does (see `LogTruncation`). Raises
        LogDirFailure.
        """
        assert not self.writing
        return self._truncation.truncate_to(offset, high_watermark=self.high_watermark)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drops everything; the log is then empty and begins and ends at `offset`.

        Nothing is known of producers then, as in Kafka (`ProducerStateManager`, same name).
        Raises LogDirFailure.
        """
        self._truncation.start_at(offset, high_watermark=self.high_watermark)

    def advance_log_start(self, offset: int) -> None:
        """Nothing before `offset` is to be read any more; segments wholly before it are deleted.

        The caller keeps `offset` at or below the high watermark. Raises OffsetOutOfRange if it is
        behind the log end offset, LogDirFailure.
        """
        self._deletion.advance_start(offset)

    def apply_retention(self) -> int:
        """Deletes segments that have outlived the topic's retention, unless the writer thread or
        the cleaner is at work; returns how many.
        """
        if self.writing or self.cleaning is not None:
            return 0
        return self._deletion.apply_retention(high_watermark=self.high_watermark, roll=self.roll)

    # -- the end --------------------------------------------------------------------------------

    def close(self, *, clean: bool) -> None:
        """Releases all files. `clean` first completes what is on disk and syncs it, so that the
        next `open` may skip recovery if the whole log directory was closed like that. A log that
        is still being written (`writing`) cannot be closed clean.
        """
        assert not (clean and self.writing)
        self._closing.close(clean=clean)

    def delete(self, token: str) -> None:
        """Renames the directory to `<name>.<token>-delete`, to be removed after the delay.

        `token` is 32 hexadecimal digits that nobody used before. Pinned segments stay readable.
        """
        self._closing.delete(token)

    def set_aside(self, token: str) -> None:
        """Renames the directory to `<name>.<token>-stray`, where it stays; else as `delete`."""
        self._closing.set_aside(token)

    def set_damaged_aside(self, token: str) -> None:
        """Renames the directory to `<name>.<token>-damaged`, where it stays; else as `delete`."""
        self._closing.set_damaged_aside(token)
