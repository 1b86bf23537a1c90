"""Appends to a log: the hot path of Produce and of replication.

One object per group (`LogAppendInfo`), one writev, no call per batch.
"""

import errno
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from time import monotonic
from typing import Final

from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.log.append_info import Buffer, LogAppendInfo
from highwater.partition.storage.log.log_epochs import LogEpochs
from highwater.partition.storage.log.log_producers import LogProducers
from highwater.partition.storage.log.log_segments import LogSegments
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.log.segment_lookup import SegmentLookup
from highwater.partition.storage.log.segment_roll import SegmentRoll
from highwater.partition.storage.log.stall import SLOW_WRITE_S
from highwater.partition.storage.segment.batches import largest_timestamp
from highwater.partition.storage.segment.segment import Segment

IOV_MAX: Final = 1024
"""Linux's limit of buffers in one writev."""


class LogWriter:
    """Writes groups at the end of one log. Lives as long as the log."""

    __slots__ = (
        "_epochs",
        "_filesystem",
        "_index_interval",
        "_lookup",
        "_place",
        "_producers",
        "_pwritev",
        "_roll",
        "_segments",
        "_stall",
    )

    def __init__(
        self,
        place: LogPlace,
        segments: LogSegments,
        lookup: SegmentLookup,
        *,
        roll: SegmentRoll,
        epochs: LogEpochs,
        producers: LogProducers,
    ) -> None:
        """All belong to the log."""
        self._place = place
        self._filesystem = place.filesystem
        self._stall = place.environment.stall
        self._segments = segments
        self._lookup = lookup
        self._roll = roll
        self._epochs = epochs
        self._producers = producers
        self._pwritev = place.filesystem.pwritev
        self._index_interval = place.config.index_interval_bytes

    def reconfigured(self, index_interval: int) -> None:
        """Take a new index.interval.bytes."""
        self._index_interval = index_interval

    def relocated(self) -> None:
        """The log's files are in another log directory."""
        self._filesystem = self._place.filesystem
        self._stall = self._place.environment.stall
        self._pwritev = self._filesystem.pwritev

    def append(self, info: LogAppendInfo) -> None:
        """Write one group of whole batches at the log end offset, in one writev.

        The caller has already recorded idempotent batches in the producer states. If a roll is due,
        it happens before the group or between its batches. Raises LogDirFailure; then nothing of
        the group is in the log.
        """
        segments = self._segments
        roll = self._roll
        segment = segments.active
        position = segment.size
        nbytes = info.nbytes
        end = position + nbytes
        buffers = info.buffers
        max_timestamp = info.max_timestamp
        next_offset = info.next_offset
        if (
            end > roll.size_limit
            or max_timestamp > roll.timestamp_limit
            or next_offset > roll.offset_limit
            or info.leader_epoch != self._epochs.appended
            or len(buffers) > IOV_MAX
        ):
            self.append_with_care(info)
            return
        fd = segment.fd
        try:
            if fd < 0:
                fd = segment.open()
            begun = monotonic()
            written = self._pwritev(fd, buffers, position)
            if monotonic() - begun > SLOW_WRITE_S:
                self._stall.slow_write()
            if written != nbytes:
                self.write_rest(segment, buffers, written, position)
        except OSError as error:
            raise self._write_failed(segment, error) from error
        segment.size = end
        segments.end_offset = next_offset
        if max_timestamp > segment.max_timestamp:  # type: ignore[operator]  # set if there is a timestamp_limit
            segment.max_timestamp = max_timestamp
            segment.max_timestamp_offset = info.max_timestamp_offset
        since = segment.bytes_since_index + nbytes
        if since <= self._index_interval:
            segment.bytes_since_index = since
        else:
            self._index_group(segment, position, info.base_offsets, info.sizes, next_offset)

    def append_with_care(self, info: LogAppendInfo) -> None:
        """As `append`, for a group that may need a roll, a new epoch or more than one writev."""
        base_offsets, sizes = info.base_offsets, info.sizes
        roll = self._roll
        if info.leader_epoch != self._epochs.appended:
            self._epochs.assign(info.leader_epoch, base_offsets[0])
        roll.leave_damaged(base_offsets[0])
        views = [memoryview(buffer) for buffer in info.buffers]
        ends = [*base_offsets[1:], info.next_offset]
        first, count = 0, len(sizes)
        while first < count:
            if roll.due(sizes[first], info.max_timestamp, ends[first]):
                roll.roll(base_offsets[first])
            stop = roll.fitting(sizes, ends, first)
            run = LogAppendInfo()
            run.leader_epoch = info.leader_epoch
            run.base_offsets = base_offsets[first:stop]
            run.sizes = sizes[first:stop]
            run.nbytes = sum(run.sizes)
            run.buffers, views = _split(views, run.nbytes)
            run.next_offset = ends[stop - 1]
            run.max_timestamp = info.max_timestamp
            run.max_timestamp_offset = info.max_timestamp_offset
            self._append_run(run)
            first = stop
        self._producers.take_due_snapshot()

    def roll_if_due(self, info: LogAppendInfo) -> None:
        """Begin a new segment now if `append` would begin one before the group's first batch.

        Raises LogDirFailure.
        """
        first = info.base_offsets[0]
        self._roll.leave_damaged(first)
        following = info.base_offsets[1] if len(info.base_offsets) > 1 else info.next_offset
        if self._roll.due(info.sizes[0], info.max_timestamp, following):
            self._roll.roll(first)

    def _append_run(self, run: LogAppendInfo) -> None:
        """Write batches that fit into the active segment, with any number of buffers.

        The run has the whole group's largest timestamp, which may belong to another run.
        """
        segment = self._segments.active
        position = segment.size
        self._lookup.largest_timestamp(segment)
        self._roll.reserve(segment, position + run.nbytes)
        try:
            segment.open()
            begun = monotonic()
            self.write_rest(segment, run.buffers, 0, position)
            if monotonic() - begun > SLOW_WRITE_S:
                self._stall.slow_write()
            if not position:
                segment.load_first_timestamp()
            if not run.base_offsets[0] <= run.max_timestamp_offset < run.next_offset:
                run.max_timestamp, run.max_timestamp_offset = largest_timestamp(
                    self._filesystem.pread,
                    segment.fd,
                    position=position,
                    limit=position + run.nbytes,
                )
        except OSError as error:
            raise self._write_failed(segment, error) from error
        self.grown(segment, run)

    def grown(self, segment: Segment, run: LogAppendInfo) -> None:
        """Update the active segment after batches were written at its end.

        Raises LogDirFailure.
        """
        position = segment.size
        segment.size = position + run.nbytes
        self._segments.end_offset = run.next_offset
        if segment.max_timestamp is None or run.max_timestamp > segment.max_timestamp:
            segment.max_timestamp = run.max_timestamp
            segment.max_timestamp_offset = run.max_timestamp_offset
        self._index_group(segment, position, run.base_offsets, run.sizes, run.next_offset)
        self._roll.set_limits()

    def _index_group(
        self,
        segment: Segment,
        position: int,
        base_offsets: Sequence[int],
        sizes: Sequence[int],
        next_offset: int,
    ) -> None:
        """Add index entries for a group that was written at `position`. By Kafka's rule a batch
        gets one if more than the interval was written before it since the last entry.
        """
        interval = self._index_interval
        since = segment.bytes_since_index
        if len(sizes) == 1 and since <= interval:
            segment.bytes_since_index = since + sizes[0]
            return
        ends = list(accumulate(sizes))
        count = len(ends)
        entry_end = 0
        """Bytes of the group before the batch of the newest entry."""
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
            raise LogDirFailure(segment.index.file.path, error) from error
        segment.bytes_since_index = since + ends[-1]
        segment.referenced = True
        if segment.index.is_full() or segment.time_index.is_full():
            self._roll.index_full()

    def write_rest(
        self, segment: Segment, buffers: Sequence[Buffer], written: int, position: int
    ) -> None:
        """Write the rest of `buffers` after their first `written` bytes, in one or more calls.

        `position` is where the first buffer begins. No state is changed, so another thread may call
        this. Raises OSError.
        """
        _, views = _split([memoryview(buffer) for buffer in buffers], written)
        position += written
        while views:
            written = self._pwritev(segment.fd, views[:IOV_MAX], position)
            if written <= 0:
                raise OSError(errno.EIO, "nothing was written")
            position += written
            _, views = _split(views, written)

    def _write_failed(self, segment: Segment, error: OSError) -> LogDirFailure:
        """Remove what a failed write left in the file, if possible; return the error to raise."""
        failure = LogDirFailure(segment.file, error)
        try:
            if segment.fd >= 0:
                self._filesystem.ftruncate(segment.fd, segment.size)
        except OSError as second:
            failure.add_note(f"and its tail could not be cut off: {second}")
        return failure


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
