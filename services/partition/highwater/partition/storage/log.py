"""A partition's log: the segments of one directory, appended to and read by one thread.

Lifecycle: `PartitionLog.open` (which recovers) -> append, read, truncate, roll ... -> `close` or
`delete`. No method waits for the network or for another thread. Where the operating system
refuses I/O they raise `LogDirFailure`, after which the log must not be used any more.

Invariants: batches are whole; offsets are contiguous over batches and segments (compacted logs
have gaps); `log_start_offset <= log_end_offset`. What is above the high watermark may be
truncated; roles and the high watermark's rules live with the replica, not here.
"""

import errno
import os
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final, Self

from highwater.model.time import Clock
from highwater.partition.storage import checkpoint, producer_snapshots
from highwater.partition.storage.batches import (
    base_offset_at,
    find_batch,
    first_max_timestamp,
    last_boundary,
    largest_timestamp,
    size_at,
)
from highwater.partition.storage.config import NEVER, LogConfig
from highwater.partition.storage.environment import InlineEnvironment, LogEnvironment
from highwater.partition.storage.errors import (
    CorruptIndexError,
    CorruptLogError,
    LogDirFailure,
    OffsetOutOfRange,
)
from highwater.partition.storage.flush import FlushJob
from highwater.partition.storage.loader import LoadedLog, LogLoader
from highwater.partition.storage.names import (
    DELETED_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    SNAPSHOT_SUFFIX,
    deleted_directory,
    offset_file,
    parse_offset_file,
)
from highwater.partition.storage.producer_recovery import newest_snapshot, replay
from highwater.partition.storage.recovery import rebuild_indexes
from highwater.partition.storage.segment import Segment, SegmentFactory
from highwater.partition.storage.time_index import NO_TIMESTAMP

IOV_MAX: Final = 1024
"""Linux's limit of buffers in one writev."""
RELATIVE_OFFSET_MAX: Final = 0x7FFF_FFFF
POSITIONS_KEPT: Final = 256
"""Remembered places where readers stopped; all are forgotten when there are more."""
_ALWAYS: Final = -(1 << 63)

Buffer = bytes | bytearray | memoryview


class LogSlice:
    """Whole batches in a segment file: `length` bytes at `position`, the first at `base_offset`.

    Valid until the log's owner runs again; to keep it longer, `segment.pin()` it and
    `segment.unpin()` it in the end, both on the owner's thread.
    """

    __slots__ = ("base_offset", "length", "position", "segment")

    def __init__(self, segment: Segment, position: int, length: int, base_offset: int) -> None:
        self.segment = segment
        self.position = position
        self.length = length
        self.base_offset = base_offset


class PartitionLog:
    """One replica's log; see the module for its lifecycle and invariants.

    Attributes are for reading; only `high_watermark` is set from outside, by the replica, so that
    the writer of the checkpoint finds it here.
    """

    __slots__ = (
        "_active",
        "_bases",
        "_directory_dirty",
        "_environment",
        "_epoch",
        "_factory",
        "_index_interval",
        "_positions",
        "_pwritev",
        "_roll_offset",
        "_roll_size",
        "_roll_timestamp",
        "_sealed_bytes",
        "_segments",
        "_snapshot_due",
        "_truncations",
        "clock",
        "config",
        "directory",
        "epochs",
        "flush_at_offset",
        "high_watermark",
        "log_end_offset",
        "log_start_offset",
        "partition",
        "producers",
        "recovered_segments",
        "recovery_point",
        "topic",
        "truncated_bytes",
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
        factory: SegmentFactory,
    ) -> None:
        """Use `open`."""
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.config = config
        self.clock = clock
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.high_watermark = loaded.log_start_offset
        self.recovery_point = loaded.recovery_point
        """Everything before this offset is on disk for certain."""
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.recovered_segments = loaded.recovered_segments
        self.truncated_bytes = loaded.truncated_bytes
        self._environment = environment
        self._factory = factory
        self._pwritev = environment.filesystem.pwritev
        self._segments = loaded.segments
        self._bases = [segment.base_offset for segment in self._segments]
        self._sealed_bytes = sum(segment.size for segment in self._segments[:-1])
        self._positions: dict[int, int] = {}
        self._index_interval = config.index_interval_bytes
        self._epoch = self.epochs.latest
        self._snapshot_due = False
        self._directory_dirty = True
        self._truncations = 0
        self._activate(self._segments[-1])
        self._set_flush_offset()

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
    ) -> Self:
        """Opens a partition's directory, which is created if there is none, and recovers it.

        `clean` says that the log directory was shut down in order; `recovery_point` and
        `log_start_offset` come from its checkpoints. Raises LogDirFailure if I/O fails,
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
            ).load()
        except OSError as error:
            raise LogDirFailure(path, error) from error
        return cls(
            path,
            loaded,
            topic=topic,
            partition=partition,
            config=config,
            clock=clock,
            environment=environment,
            factory=factory,
        )

    @property
    def size_bytes(self) -> int:
        """Bytes in all segments' `.log` files."""
        return self._sealed_bytes + self._active.size

    @property
    def active_segment(self) -> Segment:
        """The segment that is appended to."""
        return self._active

    @property
    def segments(self) -> Sequence[Segment]:
        """All segments, oldest first; not to be changed."""
        return self._segments

    # -- append ---------------------------------------------------------------------------------

    def append(
        self,
        buffers: Sequence[Buffer],
        nbytes: int,
        base_offsets: Sequence[int],
        sizes: Sequence[int],
        next_offset: int,
        max_timestamp: int,
        max_timestamp_offset: int,
        leader_epoch: int,
    ) -> None:
        """Writes one group of whole batches at the log end offset, in one writev.

        `buffers` hold `nbytes` bytes with offsets and epoch already set, in as many pieces as the
        caller likes; `base_offsets` and `sizes` are per batch, `next_offset` follows the last one.
        `max_timestamp` is the group's largest and `max_timestamp_offset` the last offset of the
        first batch that has it. All batches have the same `leader_epoch`. Idempotent batches are
        recorded in `producers` before. Rolls first, or between batches, where that is due.
        Raises LogDirFailure; nothing of the group is in the log then.
        """
        segment = self._active
        position = segment.size
        end = position + nbytes
        if (
            end > self._roll_size
            or max_timestamp > self._roll_timestamp
            or next_offset > self._roll_offset
            or leader_epoch != self._epoch
            or len(buffers) > IOV_MAX
        ):
            self._append_with_care(
                buffers, base_offsets, sizes, next_offset, max_timestamp,
                max_timestamp_offset, leader_epoch,
            )  # fmt: skip
            return
        fd = segment.fd
        try:
            if fd < 0:
                fd = segment.open()
            written = self._pwritev(fd, buffers, position)
            if written != nbytes:
                self._write_rest(segment, buffers, written, position)
        except OSError as error:
            raise self._write_failed(segment, error) from error
        segment.size = end
        self.log_end_offset = next_offset
        if max_timestamp > segment.max_timestamp:  # type: ignore[operator]  # set by _activate
            segment.max_timestamp = max_timestamp
            segment.max_timestamp_offset = max_timestamp_offset
        since = segment.bytes_since_index + nbytes
        if since <= self._index_interval:
            segment.bytes_since_index = since
        else:
            self._index_group(segment, position, base_offsets, sizes, next_offset)

    def _append_with_care(
        self,
        buffers: Sequence[Buffer],
        base_offsets: Sequence[int],
        sizes: Sequence[int],
        next_offset: int,
        max_timestamp: int,
        max_timestamp_offset: int,
        leader_epoch: int,
    ) -> None:
        """`append` where a roll, a new epoch or a very long list of buffers may be at hand."""
        if leader_epoch != self._epoch:
            self.assign_epoch(leader_epoch, base_offsets[0])
        views = [memoryview(buffer) for buffer in buffers]
        ends = [*base_offsets[1:], next_offset]
        first, count = 0, len(sizes)
        while first < count:
            if self._must_roll(sizes[first], max_timestamp, ends[first]):
                self._roll(base_offsets[first])
            stop = self._fitting(sizes, ends, first)
            nbytes = sum(sizes[first:stop])
            part, views = _split(views, nbytes)
            self._append_run(
                part, nbytes, base_offsets[first:stop], sizes[first:stop], ends[stop - 1],
                max_timestamp, max_timestamp_offset,
            )  # fmt: skip
            first = stop
        if self._snapshot_due:
            self._take_snapshot()

    def _fitting(self, sizes: Sequence[int], ends: Sequence[int], first: int) -> int:
        """How far the batches from `first` on go into the active segment; at least one does."""
        room = self.config.segment_bytes - self._active.size - sizes[first]
        limit = self._active.base_offset + RELATIVE_OFFSET_MAX + 1
        stop = first + 1
        while stop < len(sizes) and sizes[stop] <= room and ends[stop] <= limit:
            room -= sizes[stop]
            stop += 1
        return stop

    def _append_run(
        self,
        views: list[memoryview],
        nbytes: int,
        base_offsets: Sequence[int],
        sizes: Sequence[int],
        next_offset: int,
        max_timestamp: int,
        max_timestamp_offset: int,
    ) -> None:
        """Writes batches that go into the active segment, whatever the number of buffers."""
        segment = self._active
        position = segment.size
        try:
            segment.open()
            self._write_rest(segment, views, 0, position)
            if not position:
                segment.first_timestamp = first_max_timestamp(
                    self._environment.filesystem.pread, segment.fd
                )
            if not base_offsets[0] <= max_timestamp_offset < next_offset:
                max_timestamp, max_timestamp_offset = largest_timestamp(
                    self._environment.filesystem.pread,
                    segment.fd,
                    position=position,
                    limit=position + nbytes,
                )
        except OSError as error:
            raise self._write_failed(segment, error) from error
        segment.size = position + nbytes
        self.log_end_offset = next_offset
        if max_timestamp > segment.largest_timestamp():
            segment.max_timestamp = max_timestamp
            segment.max_timestamp_offset = max_timestamp_offset
        self._index_group(segment, position, base_offsets, sizes, next_offset)
        self._set_limits()

    def _index_group(
        self,
        segment: Segment,
        position: int,
        base_offsets: Sequence[int],
        sizes: Sequence[int],
        next_offset: int,
    ) -> None:
        """Adds index entries for a group that was written at `position`, by Kafka's rule: for
        every batch before which more than the interval was written since the last entry."""
        interval = self._index_interval
        since = segment.bytes_since_index
        ends = list(accumulate(sizes))
        count = len(ends)
        entry_end = 0
        """Bytes of the group up to and without the batch of the newest entry."""
        batch = 0 if since > interval else bisect_right(ends, interval - since) + 1
        try:
            while batch < count:
                entry_end = ends[batch - 1] if batch else 0
                following = base_offsets[batch + 1] if batch + 1 < count else next_offset
                segment.index.append(following - 1, position + entry_end)
                segment.time_index.append(
                    segment.max_timestamp or 0, segment.max_timestamp_offset
                )
                since = -entry_end
                batch = bisect_right(ends, interval + entry_end, batch) + 1
        except OSError as error:
            raise LogDirFailure(segment.index.path, error) from error
        segment.bytes_since_index = since + ends[-1]
        segment.referenced = True
        if segment.index.is_full() or segment.time_index.is_full():
            self._roll_size = -1

    def _write_rest(
        self, segment: Segment, buffers: Sequence[Buffer], written: int, position: int
    ) -> None:
        """Writes what is left of `buffers` after `written` bytes, by as many calls as it takes."""
        _, views = _split([memoryview(buffer) for buffer in buffers], written)
        position += written
        while views:
            written = self._pwritev(segment.fd, views[:IOV_MAX], position)
            if written <= 0:
                raise OSError(errno.EIO, "nothing was written")
            position += written
            _, views = _split(views, written)

    def _write_failed(self, segment: Segment, error: OSError) -> LogDirFailure:
        """Cuts off what a failed write left behind, if the file still lets us."""
        failure = LogDirFailure(segment.file, error)
        try:
            if segment.fd >= 0:
                self._environment.filesystem.ftruncate(segment.fd, segment.size)
        except OSError as second:
            failure.add_note(f"and its tail could not be cut off: {second}")
        return failure

    # -- roll -----------------------------------------------------------------------------------

    def roll(self) -> None:
        """Begins a new segment at the log end offset, unless the active one is empty."""
        if self._active.size:
            self._roll(self.log_end_offset)
            self._take_snapshot()

    def _must_roll(self, nbytes: int, max_timestamp: int, next_offset: int) -> bool:
        """Kafka's `LogSegment.shouldRoll`, for a batch of `nbytes` that ends before `next_offset`."""
        segment = self._active
        if not segment.size:
            return False
        if segment.size + nbytes > self.config.segment_bytes:
            return True
        if next_offset - 1 - segment.base_offset > RELATIVE_OFFSET_MAX:
            return True
        if segment.index.is_full() or segment.time_index.is_full():
            return True
        first = self._first_timestamp(segment)
        now = self.clock.wall_ms()
        waited = max_timestamp - first if first >= 0 else now - segment.created_ms
        return waited > self.config.segment_ms - self.config.segment_jitter_ms

    def _first_timestamp(self, segment: Segment) -> int:
        if segment.first_timestamp is None:
            try:
                segment.first_timestamp = first_max_timestamp(
                    self._environment.filesystem.pread, segment.open()
                )
            except OSError as error:
                raise LogDirFailure(segment.file, error) from error
        return segment.first_timestamp

    def _roll(self, base_offset: int) -> None:
        """Seals the active segment and begins one at `base_offset`; syncs the old one elsewhere.

        The producer snapshot follows once the log has caught up with the producers' state.
        """
        old = self._active
        try:
            old.seal()
            segment = self._factory.create(base_offset, now_ms=self.clock.wall_ms())
        except OSError as error:
            raise LogDirFailure(self.directory, error) from error
        self._sealed_bytes += old.size
        self._segments.append(segment)
        self._bases.append(base_offset)
        self._directory_dirty = True
        self._snapshot_due = True
        job = self.begin_flush(base_offset)
        self._activate(segment)
        if job is not None:
            self._environment.run_later(job.run, lambda: self.complete_flush(job))

    def _activate(self, segment: Segment) -> None:
        self._active = segment
        self._set_limits()

    def _set_limits(self) -> None:
        """Precomputes what `append` compares with; a limit of -1 sends it to `_append_with_care`."""
        segment = self._active
        config = self.config
        full = segment.index.is_full() or segment.time_index.is_full()
        self._roll_size = -1 if full else config.segment_bytes
        self._roll_offset = segment.base_offset + RELATIVE_OFFSET_MAX + 1
        first = segment.first_timestamp if segment.size else None
        if first is None or first < 0 or segment.max_timestamp is None:
            self._roll_timestamp = _ALWAYS
        else:
            self._roll_timestamp = first + config.segment_ms - config.segment_jitter_ms

    def _take_snapshot(self) -> None:
        """Writes the producers as they are at the log end offset, on another thread."""
        self._snapshot_due = False
        path = producer_snapshots.snapshot_path(self.directory, self.log_end_offset)
        entries = list(self.producers.entries())
        filesystem = self._environment.filesystem

        def write() -> None:
            try:
                producer_snapshots.write(filesystem, path, entries)
            except OSError as error:
                raise LogDirFailure(path, error) from error

        self._environment.run_later(write, _nothing)

    # -- leader epochs --------------------------------------------------------------------------

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Notes that `epoch` begins at `start_offset`: at the first append of a new epoch, and
        when a replica becomes leader."""
        if self.epochs.assign(epoch, start_offset):
            self._write_epochs()
        self._epoch = epoch

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as `LeaderEpochCache.end_offset_for` says for this log."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def _write_epochs(self) -> None:
        path = os.path.join(self.directory, LEADER_EPOCH_CHECKPOINT)
        try:
            checkpoint.write_epochs(
                self._environment.filesystem, path, self.epochs.entries(), durable=False
            )
        except OSError as error:
            raise LogDirFailure(path, error) from error

    # -- read -----------------------------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, *, end_offset: int, min_one_batch: bool = True
    ) -> LogSlice | None:
        """Where the batches from the one that holds `offset` on lie, up to `end_offset`.

        `end_offset` is exclusive: the high watermark or the last stable offset. At most
        `max_bytes` of whole batches, but with `min_one_batch` at least the first one. None if
        there is nothing to give. Raises OffsetOutOfRange, CorruptLogError, LogDirFailure.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)
        if offset >= end_offset or offset == self.log_end_offset:
            return None
        segment = self._active
        if offset < segment.base_offset:
            segment = self._segments[bisect_right(self._bases, offset) - 1]
        try:
            return self._read(segment, offset, max_bytes, end_offset, min_one_batch)
        except OSError as error:
            raise LogDirFailure(segment.file, error) from error
        except (CorruptIndexError, CorruptLogError):
            self._repair_indexes(segment)
        return self._read(segment, offset, max_bytes, end_offset, min_one_batch)

    def _read(
        self, segment: Segment, offset: int, max_bytes: int, end_offset: int, min_one_batch: bool
    ) -> LogSlice | None:
        segment.referenced = True
        positions = self._positions
        position = 0 if offset == segment.base_offset else positions.get(offset)
        base_offset = offset
        if position is None:
            found = self._locate(segment, offset)
            if found is None:
                return self._read_next_segment(segment, max_bytes, end_offset, min_one_batch)
            position, base_offset = found
            positions[base_offset] = position
        following = self._end_of(segment)
        limit = segment.size
        if end_offset < following:
            following = end_offset
            limit = self._position_of_end(segment, end_offset)
        length = limit - position
        if length > max_bytes:
            length, following = self._cut(segment, position, max_bytes, min_one_batch)
        if length <= 0:
            return None
        if len(positions) >= POSITIONS_KEPT:
            positions.clear()
        positions[following] = position + length
        if segment.fd < 0:
            segment.open()
        return LogSlice(segment, position, length, base_offset)

    def _end_of(self, segment: Segment) -> int:
        """The offset that follows a segment."""
        if segment is self._active:
            return self.log_end_offset
        return self._bases[bisect_right(self._bases, segment.base_offset)]

    def _read_next_segment(
        self, segment: Segment, max_bytes: int, end_offset: int, min_one_batch: bool
    ) -> LogSlice | None:
        """A compacted log may have no batch from `offset` to the end of its segment."""
        following = self._end_of(segment)
        if segment is self._active or following >= end_offset:
            return None
        segment = self._segments[bisect_right(self._bases, following) - 1]
        return self._read(segment, following, max_bytes, end_offset, min_one_batch)

    def _locate(self, segment: Segment, offset: int) -> tuple[int, int] | None:
        """(position, base offset) of the first batch in a segment that ends at or after `offset`."""
        start = segment.index.floor(offset)
        if start > segment.size:
            raise CorruptIndexError(f"{segment.index.path} points behind its segment")
        found = find_batch(
            self._environment.filesystem.pread,
            segment.fd if segment.fd >= 0 else segment.open(),
            position=start,
            limit=segment.size,
            offset=offset,
        )
        if found is None:
            return None
        if found[1] > offset and found[0] == start > 0:
            raise CorruptIndexError(f"{segment.index.path} points behind offset {offset}")
        return found[0], found[1]

    def _position_of_end(self, segment: Segment, end_offset: int) -> int:
        """Where the batch begins that holds `end_offset`, which is the first not to be read."""
        if end_offset == segment.base_offset:
            return 0
        position = self._positions.get(end_offset)
        if position is None:
            found = self._locate(segment, end_offset)
            if found is None:
                return segment.size
            position = found[0]
        return position

    def _cut(
        self, segment: Segment, position: int, max_bytes: int, min_one_batch: bool
    ) -> tuple[int, int]:
        """(length, next offset) of the batches from `position` on that fit into `max_bytes`."""
        pread = self._environment.filesystem.pread
        fd = segment.fd if segment.fd >= 0 else segment.open()
        limit = min(position + max_bytes, segment.size)
        boundary = segment.index.floor_position(limit)
        if boundary > position:
            return boundary - position, base_offset_at(pread, fd, boundary)
        end, following = last_boundary(pread, fd, position=position, limit=limit)
        if end > position:
            return end - position, following
        return size_at(pread, fd, position) if min_one_batch else (0, position)

    def _repair_indexes(self, segment: Segment) -> None:
        """Rebuilds a segment's indexes, which disagree with it. Raises CorruptLogError if the
        segment itself is damaged."""
        self._positions.clear()
        try:
            rebuild_indexes(
                self._environment.filesystem, segment, index_interval=self._index_interval
            )
        except OSError as error:
            raise LogDirFailure(segment.file, error) from error
        if segment is not self._active:
            segment.seal()

    # -- durability -----------------------------------------------------------------------------

    def begin_flush(self, up_to: int | None = None) -> FlushJob | None:
        """Prepares an fsync up to an offset (the log end offset if not given); None if it is done.

        Run the job anywhere, then `complete_flush` it here.
        """
        offset = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        if offset <= self.recovery_point:
            return None
        first = max(bisect_right(self._bases, self.recovery_point) - 1, 0)
        segments = [s for s in self._segments[first:] if s.base_offset < offset]
        directory = self.directory if self._directory_dirty else None
        self._directory_dirty = False
        try:
            return FlushJob(
                segments,
                offset,
                truncations=self._truncations,
                directory=directory,
                filesystem=self._environment.filesystem,
            )
        except OSError as error:
            raise LogDirFailure(self.directory, error) from error

    def complete_flush(self, job: FlushJob) -> None:
        """Moves the recovery point to what `job` made durable, unless it was truncated since."""
        job.release()
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
        """`flush_at_offset`: once the log end offset reaches it, flush.messages asks for a flush."""

    # -- truncation and deletion ----------------------------------------------------------------

    def truncate_to(self, offset: int) -> int:
        """Cuts the log so that it ends at or before `offset`, at a batch boundary; the new end.

        In place: the caller guarantees that nothing below the high watermark goes. Producers are
        rebuilt from the newest snapshot and the log.
        """
        if offset >= self.log_end_offset:
            return self.log_end_offset
        if offset <= self._bases[0]:
            start = min(offset, self.log_start_offset)
            self.truncate_fully_and_start_at(max(start, offset))
            return self.log_end_offset
        number = bisect_right(self._bases, offset) - 1
        try:
            self._truncate_segment(number, offset)
        except OSError as error:
            raise LogDirFailure(self.directory, error) from error
        return self.log_end_offset

    def _truncate_segment(self, number: int, offset: int) -> None:
        segment = self._segments[number]
        try:
            found = self._locate(segment, offset)
        except (CorruptIndexError, CorruptLogError):
            self._repair_indexes(segment)
            found = self._locate(segment, offset)
        position, end = (found[0], min(found[1], offset)) if found else (segment.size, offset)
        self._drop(self._segments[number + 1 :])
        filesystem = self._environment.filesystem
        filesystem.ftruncate(segment.open(), position)
        segment.size = position
        segment.index.truncate(end)
        segment.time_index.truncate(end)
        segment.forget_timestamps()
        entry = segment.index.last_entry()
        segment.bytes_since_index = position - (entry[1] if entry else 0)
        if position:
            self._find_largest_timestamp(segment)
        self._truncated(segment, end)

    def _find_largest_timestamp(self, segment: Segment) -> None:
        """After a cut: no batch after the last time index entry is covered by it."""
        timestamp, offset = segment.time_index.last_entry()
        start = segment.index.floor(offset) if timestamp > NO_TIMESTAMP else 0
        largest = largest_timestamp(
            self._environment.filesystem.pread, segment.fd, position=start, limit=segment.size
        )
        segment.max_timestamp, segment.max_timestamp_offset = max(
            (timestamp, offset), largest, key=lambda entry: entry[0]
        )

    def _truncated(self, segment: Segment, end: int) -> None:
        """Brings everything that is derived from the batches in line with the new end."""
        self._truncations += 1
        self._positions.clear()
        self.log_end_offset = end
        self.recovery_point = min(self.recovery_point, end)
        self._sealed_bytes = sum(s.size for s in self._segments[:-1])
        self._activate(segment)
        self._set_flush_offset()
        if self.epochs.truncate_from_end(end):
            self._write_epochs()
        self._epoch = self.epochs.latest
        filesystem = self._environment.filesystem
        self.producers, start = newest_snapshot(
            filesystem,
            self.directory,
            limit=end,
            now_ms=self.clock.wall_ms(),
            expiration_ms=self.config.producer_id_expiration_ms,
        )
        replay(filesystem, self._segments, self.producers, start=start, end=end)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drops everything; the log is then empty and begins and ends at `offset`."""
        try:
            self._drop(list(self._segments))
            segment = self._factory.create(offset, now_ms=self.clock.wall_ms())
            self._segments.append(segment)
            self._bases.append(offset)
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

    def _drop(self, segments: list[Segment]) -> None:
        """Renames the files of some segments out of the way and forgets the segments."""
        rename = self._environment.filesystem.rename
        doomed: list[str] = []
        for segment in segments:
            snapshot = producer_snapshots.snapshot_path(self.directory, segment.base_offset)
            for path in (segment.file, segment.index.path, segment.time_index.path, snapshot):
                try:
                    rename(path, path + DELETED_SUFFIX)
                except FileNotFoundError:
                    continue
                doomed.append(path + DELETED_SUFFIX)
            segment.moved(self.directory, DELETED_SUFFIX)
            segment.close()
            number = self._bases.index(segment.base_offset)
            del self._bases[number], self._segments[number]
        if doomed:
            self._environment.delete_later(doomed, self.config.file_delete_delay_ms)

    # -- the end --------------------------------------------------------------------------------

    def close(self, *, clean: bool) -> None:
        """Releases all files. `clean` first completes what is on disk and syncs it, so that the
        next `open` may skip recovery if the whole log directory was closed like that."""
        try:
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
        parent, name = os.path.split(self.directory)
        target = os.path.join(parent, deleted_directory(name, token))
        try:
            self._environment.filesystem.rename(self.directory, target)
        except OSError as error:
            raise LogDirFailure(self.directory, error) from error
        self.directory = target
        for segment in self._segments:
            segment.moved(target)
            segment.close()
        self._environment.delete_later([target], self.config.file_delete_delay_ms)


def _split(views: list[memoryview], nbytes: int) -> tuple[list[memoryview], list[memoryview]]:
    """The first `nbytes` of `views`, and the rest."""
    for number, view in enumerate(views):
        if nbytes < len(view):
            if not nbytes:
                return views[:number], views[number:]
            return [*views[:number], view[:nbytes]], [view[nbytes:], *views[number + 1 :]]
        nbytes -= len(view)
    assert not nbytes
    return views, []


def _nothing() -> None:
    """There is nothing to do on the owner's thread."""
