"""Appends to a log whose directory hangs: written by the directory's writer thread.

`log.py` has the whole log and its invariants, `stall.py` says when a directory hangs.
"""

from collections.abc import Callable, Sequence
from time import monotonic

from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.log.log_writer import Buffer, LogWriter
from highwater.partition.storage.segment.batches import max_timestamp_at
from highwater.partition.storage.segment.segment import Segment


class LateLogWriter(LogWriter):
    """A log that can be appended to without waiting for the disk; see `PartitionLog`."""

    __slots__ = ()

    def append_later(
        self,
        buffers: Sequence[Buffer],
        nbytes: int,
        base_offsets: Sequence[int],
        sizes: Sequence[int],
        next_offset: int,
        max_timestamp: int,
        max_timestamp_offset: int,
        leader_epoch: int,
        done: Callable[[], None],
    ) -> bool:
        """`append` on the directory's writer thread; `done` is called when the group is in the log.

        One at a time: while `writing` is true nothing else may change this log. Reads go on. The
        buffers stay as they are until then. `done` is never called if the write fails, then the
        directory goes offline, nor if the log was closed or deleted meanwhile.

        Returns False if the group is in the log already: one that goes across the end of a
        segment, which is rare, is written here and now. A roll before it is made here, too.
        """
        assert not self.writing
        if (
            self._active.size + nbytes > self._roll_size
            or max_timestamp > self._roll_timestamp
            or next_offset > self._roll_offset
            or leader_epoch != self._epoch
        ) and not self._make_room(base_offsets, sizes, next_offset, max_timestamp, leader_epoch):
            self._append_with_care(
                buffers, base_offsets, sizes, next_offset, max_timestamp,
                max_timestamp_offset, leader_epoch,
            )  # fmt: skip
            return False
        segment = self._active

        def written() -> None:
            self._load_first_timestamp(segment)
            self._grown(
                segment, nbytes, base_offsets, sizes, next_offset, max_timestamp,
                max_timestamp_offset,
            )  # fmt: skip
            self._set_limits()
            if self._snapshot_due:
                self._take_snapshot()
            done()

        self._write_later(segment, buffers, written)
        return True

    def _write_later(
        self, segment: Segment, buffers: Sequence[Buffer], written: Callable[[], None]
    ) -> None:
        """Writes at the end of the segment on the thread; `written` if the log is there still."""
        seconds = 0.0
        position = segment.size

        def write() -> None:
            nonlocal seconds
            begun = monotonic()
            try:
                self._write_rest(segment, buffers, 0, position)
            except OSError as error:
                if self.life.excuses(error):
                    return
                raise LogDirFailure(segment.file, error) from error
            seconds = monotonic() - begun

        def finish() -> None:
            self.writing = False
            segment.unpin()
            self.stall.written(seconds)
            if not segment.deleted:
                written()

        try:
            segment.pin()
        except OSError as error:
            raise LogDirFailure(segment.file, error) from error
        self.writing = True
        self._environment.write_later(write, finish)

    def _make_room(
        self,
        base_offsets: Sequence[int],
        sizes: Sequence[int],
        next_offset: int,
        max_timestamp: int,
        leader_epoch: int,
    ) -> bool:
        """Notes a new epoch and rolls if that is due; whether the group then fits as a whole.

        No space is reserved ahead: that is another call that may hang.
        """
        if leader_epoch != self._epoch:
            self.assign_epoch(leader_epoch, base_offsets[0])
        self._leave_if_damaged(base_offsets[0])
        ends = [*base_offsets[1:], next_offset]
        if self._must_roll(sizes[0], max_timestamp, ends[0]):
            self._roll(base_offsets[0])
        segment = self._active
        self._with_indexes(segment, segment.largest_timestamp)
        return self._fitting(sizes, ends, 0) == len(sizes)

    def _load_first_timestamp(self, segment: Segment) -> None:
        """After a segment's first write: its pages are in memory still."""
        if segment.size or segment.first_timestamp is not None:
            return
        try:
            segment.first_timestamp = max_timestamp_at(
                self._environment.filesystem.pread, segment.open(), 0
            )
        except OSError as error:
            raise LogDirFailure(segment.file, error) from error
