"""Appends to a log whose directory is stalled: the directory's writer thread writes them.

`stall.py` decides when a directory is stalled.
"""

from collections.abc import Callable
from time import monotonic

from highwater.partition.core.transactions import AbortedTransaction
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.log.append_info import LogAppendInfo
from highwater.partition.storage.log.log_epochs import LogEpochs
from highwater.partition.storage.log.log_producers import LogProducers
from highwater.partition.storage.log.log_segments import LogSegments
from highwater.partition.storage.log.log_writer import LogWriter
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.log.segment_lookup import SegmentLookup
from highwater.partition.storage.log.segment_roll import SegmentRoll
from highwater.partition.storage.segment.segment import Segment


class LateWriter:
    """Appends to one log without waiting for the disk, one group at a time."""

    __slots__ = (
        "_epochs", "_lookup", "_next_offset", "_place", "_producers", "_roll", "_segments",
        "_writer", "writing",
    )  # fmt: skip

    def __init__(
        self,
        place: LogPlace,
        segments: LogSegments,
        lookup: SegmentLookup,
        *,
        roll: SegmentRoll,
        epochs: LogEpochs,
        producers: LogProducers,
        writer: LogWriter,
    ) -> None:
        """All belong to the log."""
        self._place = place
        self._segments = segments
        self._lookup = lookup
        self._roll = roll
        self._epochs = epochs
        self._producers = producers
        self._writer = writer
        self.writing = False
        """Whether the writer thread is writing, or the log is held; until that ends nothing else may
        change the log.
        """
        self._next_offset = 0

    @property
    def end_offset(self) -> int:
        """Where the log will end when it has what is being written, of which the producers' states know
        already; 0 while nothing is being written.
        """
        return self._next_offset if self.writing else 0

    def append(
        self,
        info: LogAppendInfo,
        done: Callable[[], None],
        aborted: AbortedTransaction | None = None,
    ) -> bool:
        """As `LogWriter.append`, on the directory's writer thread; then `done` is called.

        `aborted`: what the marker ends that is the group's first batch. The segment's index gets it
        before (`LogTransactions.before_abort`).

        While `writing` is true nothing else may change this log, and the buffers must not change;
        reads go on. `done` is never called if the write fails (the directory then goes offline), or
        if the log was closed or deleted meanwhile.

        Returns False if the group is in the log already: a group that spans two segments, which is
        rare, is written at once on this thread. So is a roll before the group.
        """
        assert not self.writing
        roll = self._roll
        if (
            self._segments.active.size + info.nbytes > roll.size_limit
            or info.max_timestamp > roll.timestamp_limit
            or info.next_offset > roll.offset_limit
            or info.leader_epoch != self._epochs.appended
        ) and not self._make_room(info):
            if aborted is not None:
                self._index(aborted)
            self._writer.append_with_care(info)
            return False
        segment = self._segments.active

        def written() -> None:
            if aborted is not None:
                segment.transactions.take()
            if not segment.size:
                self._lookup.first_timestamp(segment)  # The segment's pages are still in memory.
            self._writer.grown(segment, info)
            self._producers.take_due_snapshot()
            done()

        self._write(segment, info, written, aborted)
        return True

    def hold(self) -> None:
        """Let nothing change this log until `release`, as if the thread were writing: its files are
        about to move (`LogRelocation`).
        """
        assert not self.writing
        self.writing = True
        self._next_offset = 0

    def release(self) -> None:
        """End `hold`. The caller has queued appends taken up again."""
        assert self.writing
        self.writing = False

    def _index(self, aborted: AbortedTransaction) -> None:
        index = self._segments.active.transactions
        try:
            index.append(aborted)
        except OSError as error:
            raise LogDirFailure(index.file.path, error) from error

    def _write(
        self,
        segment: Segment,
        info: LogAppendInfo,
        written: Callable[[], None],
        aborted: AbortedTransaction | None,
    ) -> None:
        """Write at the end of the segment on the thread; call `written` if the log still exists."""
        seconds = 0.0
        position = segment.size
        place = self._place

        def write() -> None:
            nonlocal seconds
            begun = monotonic()
            try:
                if aborted is not None:
                    segment.transactions.put(aborted)
                self._writer.write_rest(segment, info.buffers, 0, position)
            except OSError as error:
                if place.life.excuses(error):
                    return
                raise LogDirFailure(segment.file, error) from error
            seconds = monotonic() - begun

        def finish() -> None:
            self.writing = False
            segment.unpin()
            place.environment.stall.written(seconds)
            if not segment.deleted:
                written()

        try:
            segment.pin()
        except OSError as error:
            raise LogDirFailure(segment.file, error) from error
        self.writing = True
        self._next_offset = info.next_offset
        place.environment.write_later(write, finish)

    def _make_room(self, info: LogAppendInfo) -> bool:
        """Record a new epoch, and roll if due; return whether the whole group then fits.

        No disk space is reserved ahead: that call might hang, too.
        """
        base_offsets, sizes, roll = info.base_offsets, info.sizes, self._roll
        if info.leader_epoch != self._epochs.appended:
            self._epochs.assign(info.leader_epoch, base_offsets[0])
        roll.leave_damaged(base_offsets[0])
        ends = [*base_offsets[1:], info.next_offset]
        if roll.due(sizes[0], info.max_timestamp, ends[0]):
            roll.roll(base_offsets[0])
        self._lookup.largest_timestamp(self._segments.active)
        return roll.fitting(sizes, ends, 0) == len(sizes)
