"""The writing half of a partition's log: append, roll, leader epochs, fsync.

`log.py` has the whole log and its invariants.
"""

import errno
from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from time import monotonic
from typing import Final

from highwater.model.time import Clock
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.errors import DamagedHeaderError, LogDirFailure
from highwater.partition.storage.log.environment import LogEnvironment
from highwater.partition.storage.log.log_durability import DurableLog
from highwater.partition.storage.log.producer_snapshots import SnapshotJob
from highwater.partition.storage.log.stall import SLOW_WRITE_S
from highwater.partition.storage.recovery.loader import LoadedLog
from highwater.partition.storage.segment.batches import largest_timestamp, max_timestamp_at
from highwater.partition.storage.segment.preallocation import CHUNK_BYTES, GrowthMonitor
from highwater.partition.storage.segment.segment import Segment, SegmentFactory

IOV_MAX: Final = 1024
"""Linux's limit of buffers in one writev."""
RELATIVE_OFFSET_MAX: Final = 0x7FFF_FFFF
_ALWAYS: Final = -(1 << 63)

Buffer = bytes | bytearray | memoryview


class LogWriter(DurableLog):
    """A log that grows; see `PartitionLog`.

    `_roll_size`, `_roll_timestamp` and `_roll_offset` are what the next append is compared with;
    beyond any of them it takes the careful way, which rolls or reserves disk space if it must.
    """

    __slots__ = (
        "_factory",
        "_growth",
        "_pwritev",
        "_roll_offset",
        "_roll_size",
        "_roll_timestamp",
        "_sealed_bytes",
        "_snapshot_due",
        "stall",
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
        self.stall = environment.stall
        """Whether writes to the log's directory hang: then `append_later` instead of `append`."""
        self._factory = factory
        self._growth = GrowthMonitor(clock.monotonic_ms())
        self._pwritev = environment.filesystem.pwritev
        self._sealed_bytes = sum(segment.size for segment in self._segments[:-1])
        self._snapshot_due = False
        self._activate(self._segments[-1])

    @property
    def size_bytes(self) -> int:
        """Bytes in all segments' `.log` files."""
        return self._sealed_bytes + self._active.size

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
            begun = monotonic()
            written = self._pwritev(fd, buffers, position)
            if monotonic() - begun > SLOW_WRITE_S:
                self.stall.slow_write()
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
        self._leave_if_damaged(base_offsets[0])
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

    def _leave_if_damaged(self, base_offset: int) -> None:
        """Closes the active segment if its batches cannot be walked over, and notes what is lost:
        what is appended now can be found, and the log's owner has the rest repaired.
        """
        segment = self._active
        seen = segment.max_timestamp is not None and segment.first_timestamp is not None
        if seen or not segment.size:
            return
        try:
            self._with_indexes(segment, partial(self._first_timestamp, segment))
            self._with_indexes(segment, segment.largest_timestamp)
        except DamagedHeaderError as error:
            self.note_damage(error.first, base_offset)
            self._roll(base_offset)

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
        self._with_indexes(segment, segment.largest_timestamp)
        self._reserve(segment, position + nbytes)
        try:
            segment.open()
            begun = monotonic()
            self._write_rest(segment, views, 0, position)
            if monotonic() - begun > SLOW_WRITE_S:
                self.stall.slow_write()
            if not position:
                segment.first_timestamp = max_timestamp_at(
                    self._environment.filesystem.pread, segment.fd, 0
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
        self._grown(
            segment, nbytes, base_offsets, sizes, next_offset, max_timestamp, max_timestamp_offset
        )
        self._set_limits()

    def _grown(
        self,
        segment: Segment,
        nbytes: int,
        base_offsets: Sequence[int],
        sizes: Sequence[int],
        next_offset: int,
        max_timestamp: int,
        max_timestamp_offset: int,
    ) -> None:
        """Takes note of batches that were written at the end of the active segment."""
        position = segment.size
        segment.size = position + nbytes
        self.log_end_offset = next_offset
        if segment.max_timestamp is None or max_timestamp > segment.max_timestamp:
            segment.max_timestamp = max_timestamp
            segment.max_timestamp_offset = max_timestamp_offset
        self._index_group(segment, position, base_offsets, sizes, next_offset)

    def _reserve(self, segment: Segment, end: int) -> None:
        """Reserves the next chunk of disk space if the segment grows fast, or is to be whole."""
        room = self.config.segment_bytes - segment.size
        if self.config.preallocate and not segment.size:
            segment.preallocate(room)
        growth = self._growth
        if end <= growth.look_at or not growth.grown(end, self.clock.monotonic_ms()):
            return
        growth.enabled = segment.preallocate(min(CHUNK_BYTES + end - segment.size, room))

    def _index_group(
        self,
        segment: Segment,
        position: int,
        base_offsets: Sequence[int],
        sizes: Sequence[int],
        next_offset: int,
    ) -> None:
        """Adds index entries for a group that was written at `position`, by Kafka's rule: for
        every batch before which more than the interval was written since the last entry.
        """
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
                segment.time_index.append(segment.max_timestamp or 0, segment.max_timestamp_offset)
                segment.index.append(following - 1, position + entry_end)
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
        assert not self.writing
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
                segment.first_timestamp = max_timestamp_at(
                    self._environment.filesystem.pread, segment.open(), 0
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
        self._growth.rolled()
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
        self._roll_size = -1 if full else min(config.segment_bytes, self._growth.look_at)
        self._roll_offset = segment.base_offset + RELATIVE_OFFSET_MAX + 1
        first = segment.first_timestamp if segment.size else None
        if first is None or first < 0 or segment.max_timestamp is None:
            self._roll_timestamp = _ALWAYS
        else:
            self._roll_timestamp = first + config.segment_ms - config.segment_jitter_ms

    def _take_snapshot(self) -> None:
        """Writes the producers as they are at the log end offset, on another thread."""
        self._snapshot_due = False
        try:
            job = SnapshotJob(
                self._environment.filesystem,
                self.directory,
                self.log_end_offset,
                list(self.producers.entries()),
                life=self.life,
            )
        except OSError as error:
            raise LogDirFailure(self.directory, error) from error
        self._environment.run_later(job.run, _nothing)


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
