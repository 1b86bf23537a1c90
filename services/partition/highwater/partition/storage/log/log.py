"""A partition's log: the segments of one directory, which one thread appends to and reads.

Lifecycle: `PartitionLog.open` (which recovers) -> append, read, truncate, roll ... -> `close` or
`closing.delete`. No method waits for the network or for another thread. On a failed I/O call they
raise `LogDirFailure`, and the log must not be used any more.

Invariants: batches are whole; offsets are contiguous over batches and segments (compacted logs
have gaps); `log_start_offset <= log_end_offset`. Records above the high watermark may be
truncated. The replica decides about roles and the high watermark.

The log consists of parts, each of which owns its state (Kafka's `UnifiedLog` has `LogSegments`,
`ProducerStateManager` and `LeaderEpochFileCache` in the same way). Callers use the part that they
need: `log.reader.read(...)`, `log.durability.flush()`. `PartitionLog` itself has what concerns
several parts or none of them, such as the high watermark.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from highwater.model.time import Clock
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.log.environment import InlineEnvironment, LogEnvironment
from highwater.partition.storage.log.log_parts import LogParts
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.recovery.loader import LoadedLog, LogLoader
from highwater.partition.storage.segment.segment import Segment, SegmentFactory


class PartitionLog:
    """One replica's log; see the module for its lifecycle and invariants.

    Callers only read its attributes. The one exception is `stored_high_watermark`, a plain attribute
    because every append of a leader may move it: `ReplicaRole.commit_to` sets it.
    """

    __slots__ = (
        "_place",
        "_roll",
        "_truncation",
        "cleaning",
        "closing",
        "damaged",
        "deletion",
        "durability",
        "epochs",
        "extent",
        "late_writer",
        "life",
        "lost",
        "partition",
        "producers",
        "reader",
        "recovered_segments",
        "relocation",
        "search",
        "stall",
        "stored_high_watermark",
        "topic",
        "transactions",
        "truncated_bytes",
        "writer",
    )

    def __init__(
        self,
        loaded: LoadedLog,
        parts: LogParts,
        *,
        topic: str,
        partition: int,
        high_watermark: int,
    ) -> None:
        """Made of what `LogLoader` found, and of parts that were made of the same."""
        self.topic = topic
        self.partition = partition
        self.recovered_segments = loaded.recovered_segments
        self.truncated_bytes = loaded.truncated_bytes
        self.damaged = loaded.damaged
        self.life = parts.place.life
        """For work on other threads."""
        self.stall = parts.place.environment.stall
        """Whether writes to the log's directory hang; if so, `late_writer` replaces `writer`."""
        self.extent = parts.segments
        """The segments, the log start offset and the log end offset."""
        self.reader = parts.reader
        self.search = parts.search
        """Search by timestamp."""
        self.writer = parts.writer
        self.late_writer = parts.late_writer
        """While its `writing` is true nothing else may change this log. Reads go on."""
        self.durability = parts.durability
        self.epochs = parts.epochs
        self.producers = parts.producers
        self.transactions = parts.transactions
        """The indexes of aborted transactions; what is open is in `producers`."""
        self.lost = parts.lost
        self.cleaning = parts.cleaning
        self.deletion = parts.deletion
        self.closing = parts.closing
        self.relocation = parts.relocation
        self._place = parts.place
        self._roll = parts.roll
        self._truncation = parts.truncation
        self.stored_high_watermark = high_watermark
        """What storage knows of the replica's high watermark: the checkpoint's, until the replica
        has told a newer one. The next checkpoint has it; retention, compaction and repairs keep
        below it. Replication never goes by it, but by `core.replica.Replica.high_watermark`."""
        self._bound_high_watermark()

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
        high_watermark: int = 0,
        compacted: bool = False,
        cache_intact: bool = False,
        on_loss: Callable[[], None] = lambda: None,
    ) -> Self:
        """Open a partition's directory, made if it is missing, and recover its log.

        `clean`: the log directory had a clean shutdown. `recovery_point`, `log_start_offset`,
        `first_dirty` and `high_watermark` come from its checkpoints. `compacted`: the cleaner's checkpoint has the log,
        so offsets may be missing. `cache_intact`: the last process ended but the kernel did not, so
        that no write is lost (see `recovery`). `on_loss`: see `LogLoader`. Raises LogDirFailure,
        CorruptLogError, UnsupportedFormatError.
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
        return cls(loaded, parts, topic=topic, partition=partition, high_watermark=high_watermark)

    # -- views ----------------------------------------------------------------------------------

    @property
    def directory(self) -> str:
        """The log's directory; its name changes when the log is deleted, its parent when it moves."""
        return self._place.directory

    @property
    def config(self) -> LogConfig:
        """The topic's configs as of the last `reconfigure`."""
        return self._place.config

    # The hot paths of Produce, Fetch and replication use `extent`: a property costs 60 ns more.

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self.extent.start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.extent.end_offset

    @property
    def rotten(self) -> bool:
        """Whether records that may be read are known to be damaged."""
        return self.lost.any_from(self.extent.start_offset)

    @property
    def stored_stable_offset(self) -> int:
        """The last stable offset, as far as storage knows the high watermark; 0 if it is unknown.
        No records from there on may be compacted.
        """
        transactions = self.producers.states.transactions
        known = transactions.is_known(self.stored_high_watermark)
        return transactions.last_stable_offset(self.stored_high_watermark) if known else 0

    # -- for several parts ----------------------------------------------------------------------

    def reconfigure(self, config: LogConfig) -> None:
        """Take changed topic configs; existing segments keep their index sizes."""
        if not config.compact:
            self.cleaning.stop()
        self._place.config = config
        self.writer.reconfigured(config.index_interval_bytes)
        self._roll.reconfigured()
        self.durability.set_flush_offset()

    def roll(self) -> None:
        """Begin a new segment at the log end offset, unless the active one is empty."""
        assert not self.late_writer.writing
        if self.extent.active.size:
            self._roll.roll(self.extent.end_offset)
            self.producers.take_due_snapshot()

    def shorten_tail(self) -> None:
        """Write index entries and producers that a start after kill -9 would otherwise take from
        the batches. Nothing is synced, and nothing is written if it would be little.

        Raises LogDirFailure.
        """
        if self.life.ended or self.late_writer.writing or self.stall.stalled:
            return  # During a write the producer states are ahead of the log.
        try:
            self.extent.active.shorten_unindexed_tail()
            self.producers.write_recent(lambda: self.stored_high_watermark)
        except OSError as error:
            raise LogDirFailure(self.directory, error) from error

    def truncate_to(self, offset: int) -> int:
        """Truncate the log to end at or before `offset`, at a batch boundary; return the new end.

        The caller makes sure that nothing below the high watermark is lost. Epochs that begin at or
        after `offset` are removed even if no batch is (see `LogTruncation`). Raises LogDirFailure.
        """
        assert not self.late_writer.writing
        known = self.stored_high_watermark
        end = self._truncation.truncate_to(offset, high_watermark=known)
        self._bound_high_watermark()
        return end

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all records; the log is then empty and begins and ends at `offset`.

        Producer states are removed, too, as in Kafka (`ProducerStateManager`, same name).
        Raises LogDirFailure.
        """
        self._truncation.start_at(offset, high_watermark=self.stored_high_watermark)
        self._bound_high_watermark()

    def _bound_high_watermark(self) -> None:
        """Keep it in the log as the log is now."""
        extent, known = self.extent, self.stored_high_watermark
        self.stored_high_watermark = max(min(known, extent.end_offset), extent.start_offset)

    def advance_start(self, offset: int) -> None:
        """Begin the log at `offset` if that is higher, which is at most the high watermark.

        While the disk is behind, segments before it stay until the next retention. Raises
        LogDirFailure.
        """
        behind = self.late_writer.writing or self.stall.stalled
        self.deletion.advance_start(offset, remove=not behind)

    def keep_start(self, done: Callable[[], None]) -> None:
        """Have the log start offset written to disk, then call `done`; not if that fails."""
        self._place.environment.checkpoint_soon(done)

    def apply_retention(self) -> int:
        """Delete segments that have outlived the topic's retention or lie before the log start
        offset, and return how many. Do nothing while the writer thread or the cleaner works.
        """
        if self.late_writer.writing or self.cleaning.running is not None:
            return 0
        known = self.stored_high_watermark
        return self.deletion.apply_retention(high_watermark=known, roll=self.roll)

    def move(
        self, copy: str, environment: LogEnvironment, segments: Sequence[Segment], *, aside: str
    ) -> None:
        """Go on with the copy of all files in another log directory; see `LogRelocation.move`."""
        self.relocation.move(copy, environment, segments, aside=aside)
        self.stall = environment.stall

    def close(self, *, clean: bool) -> None:
        """Close all files. With `clean`, complete and sync the files first, so that the next `open`
        may skip recovery if the whole log directory was closed so. A log that is being written
        (`late_writer`) cannot be closed clean.
        """
        assert not (clean and self.late_writer.writing)
        self.closing.close(clean=clean)
