"""Reads of a log: find the place of an offset in a segment's file. The hot path of Fetch."""

import errno
import os
from collections import deque
from collections.abc import Callable
from typing import Final

from highwater.partition.storage.errors import (
    CorruptIndexError,
    CorruptLogError,
    DamagedHeaderError,
    LogDirFailure,
    OffsetOutOfRange,
)
from highwater.partition.storage.log.log_segments import LogSegments
from highwater.partition.storage.log.log_slice import LogSlice
from highwater.partition.storage.log.lost_ranges import LostRanges
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.log.segment_lookup import SegmentLookup
from highwater.partition.storage.recovery.recovery import checksum_holds
from highwater.partition.storage.segment.batches import (
    HEADER_BYTES,
    base_offset_at,
    batch_at,
    check_end,
    fits,
    headers,
    last_boundary,
    last_boundary_in,
    size_at,
)
from highwater.partition.storage.segment.segment import Segment

POSITIONS_KEPT: Final = 256
"""Limit of remembered places where readers stopped; if there are more, all are forgotten."""

EMPTY_SEGMENTS_MAX: Final = 64
"""With `pass_empty`, a read skips at most so many segments without a record: the loop waits."""

_NOT_IN_MEMORY: Final = (errno.EAGAIN, errno.EOPNOTSUPP)
"""Errors of RWF_NOWAIT: the page cache does not have the bytes, or the file system cannot tell."""
_NO_WAIT: Final = os.RWF_NOWAIT


class LogReader:
    """Reads one log. The places where readers stopped are remembered (`LogSegments.positions`), so
    a consumer that continues needs no look-up.
    """

    __slots__ = ("_filesystem", "_lookup", "_lost", "_place", "_segments")

    def __init__(
        self, place: LogPlace, segments: LogSegments, lookup: SegmentLookup, lost: LostRanges
    ) -> None:
        """All belong to the log."""
        self._place = place
        self._filesystem = place.filesystem
        self._segments = segments
        self._lookup = lookup
        self._lost = lost

    def relocated(self) -> None:
        """The log's files are in another log directory."""
        self._filesystem = self._place.filesystem

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        end_offset: int,
        min_one_batch: bool = True,
        pass_empty: bool = False,
        copied_bytes_max: int = 0,
    ) -> LogSlice | None:
        """Find the batches from the one that holds `offset` on, up to `end_offset`.

        `end_offset` is exclusive: the high watermark or the last stable offset. The result has at
        most `max_bytes` of whole batches, but with `min_one_batch` at least the first one. None if
        there is nothing to read. Raises OffsetOutOfRange, CorruptLogError, LogDirFailure, and
        DamagedRecordsError where records are lost.

        `pass_empty` is for consumers: it skips a sealed segment in which compaction has left only
        headers, unless nothing follows it. librdkafka takes many answers in a row without a record
        for a sign that a message does not fit. Replicas copy the headers.

        A slice that is known to have at most `copied_bytes_max` bytes comes with them, if they are
        in the page cache.
        """
        segments = self._segments
        lost = self._lost
        if not segments.start_offset <= offset <= segments.end_offset:
            raise OffsetOutOfRange(offset, segments.start_offset, segments.end_offset)
        if offset >= end_offset or offset == segments.end_offset:
            return None
        empty: LogSlice | None = None
        passed = 0
        while True:
            if lost.ranges:
                end_offset = lost.readable_end(offset, end_offset)
            segment = segments.active
            if offset < segment.base_offset:
                segment = segments.holding(offset)
            try:
                try:
                    found = self._read(
                        segment, offset, max_bytes, end_offset, min_one_batch, copied_bytes_max
                    )
                except (CorruptIndexError, CorruptLogError):
                    # Once more after `repair`: only the indexes may be wrong, not the segment.
                    self._lookup.repair(segment)
                    found = self._read(
                        segment, offset, max_bytes, end_offset, min_one_batch, copied_bytes_max
                    )
                if found is None:
                    return empty
                if found.length:
                    if not pass_empty or segment is segments.active:
                        return found
                    if not found.is_rest_without_records(self._filesystem.pread):
                        return found
                    empty = found
                    passed += 1
            except OSError as error:
                raise LogDirFailure(segment.file, error) from error
            offset = found.next_offset
            ended = offset >= end_offset or offset == segments.end_offset
            if ended or passed == EMPTY_SEGMENTS_MAX:
                break
        if empty is None and lost.ranges:
            # Nothing is readable before the damage; without an error the reader waits for ever.
            lost.readable_end(offset, end_offset)
        return empty

    def _read(
        self,
        segment: Segment,
        offset: int,
        max_bytes: int,
        end_offset: int,
        min_one_batch: bool,
        copied_bytes_max: int,
    ) -> LogSlice | None:
        """Read from one segment. The slice has length 0 if the segment is sealed and has no batch
        from `offset` on, which happens after compaction.
        """
        segment.referenced = True
        segments = self._segments
        active = segment is segments.active
        positions = segments.positions
        position = 0 if offset == segment.base_offset else positions.get(offset)
        base_offset = offset
        # At the log's end, where most readers are, the first header is not checked.
        unseen = not active or not position
        if position is None:
            found = self._lookup.find(segment, offset)
            if found is None or found[1] > offset:
                self._check_gap(segment, offset, segment.size if found is None else found[0])
            if found is None:
                return self._nothing_more(segment, offset)
            position, base_offset, next_offset, nbytes = found
            self._check_end(segment, position, next_offset, nbytes, end_offset)
            positions[base_offset] = position
            unseen = False
        following = segments.end_offset if active else segments.end_of(segment)
        limit = segment.size
        if end_offset < following:
            following = end_offset
            limit = self._position_of_end(segment, end_offset)
        length = limit - position
        data: bytearray | None = None
        if length > max_bytes:
            if copied_bytes_max >= max_bytes >= HEADER_BYTES:
                length, following, data = self._cut_copy(
                    segment, position, max_bytes, min_one_batch, end_offset
                )
            else:
                length, following = self._cut(
                    segment, position, max_bytes, min_one_batch, end_offset
                )
        elif length > 0:
            if unseen:
                self._check_at(segment, position, end_offset)
            if length <= copied_bytes_max:
                data = self._copy(segment, position, length)
        if length <= 0:
            if position >= segment.size:
                # A remembered place behind the last batch; the next batches were compacted away.
                return self._nothing_more(segment, offset)
            return None
        if len(positions) >= POSITIONS_KEPT:
            positions.clear()
        positions[following] = position + length
        if segment.fd < 0:
            segment.open()
        return LogSlice(segment, position, length, base_offset, following, data)

    def load(self, found: LogSlice, done: Callable[[bytes], None]) -> None:
        """Read a slice on the directory's thread, then call `done` with its bytes.

        They are fewer bytes if the log was truncated meanwhile. If the disk fails, the directory
        goes offline and `done` is not called. Raises LogDirFailure if the file cannot be opened.
        """
        segment, position, length = found.segment, found.position, found.length
        try:
            segment.pin()
        except OSError as error:
            raise LogDirFailure(segment.file, error) from error
        fd, pread = segment.fd, self._filesystem.pread
        read: list[bytes] = []

        def ready() -> None:
            segment.unpin()
            done(read[0])

        self._place.environment.run_later(lambda: read.append(pread(fd, length, position)), ready)

    def _nothing_more(self, segment: Segment, offset: int) -> LogSlice | None:
        if segment is self._segments.active:
            return None
        return LogSlice(segment, segment.size, 0, offset, self._segments.end_of(segment))

    def _check_gap(self, segment: Segment, offset: int, position: int) -> None:
        """Raise DamagedHeaderError if the gap between `offset` and `position` may not be one: the
        batch before it may have had more records, or a length that did not skip other batches.
        """
        pread = self._filesystem.pread
        fd = segment.open()
        start = segment.index.floor(offset)
        before = deque(headers(pread, fd, position=start, limit=position), maxlen=1)
        if not before or checksum_holds(self._filesystem, fd, *before[0]):
            return
        start, last = before[0]
        sealed = segment is not self._segments.active
        raise DamagedHeaderError(
            f"the checksum of the batch before offset {offset} does not hold",
            file=segment.path,
            position=start,
            first=last[0],
            end=self._segments.end_of(segment) if sealed else -1,
        )

    def _check_at(self, segment: Segment, position: int, unread: int) -> None:
        """As `_check_end`, for a batch whose header was not read yet."""
        fd = segment.fd if segment.fd >= 0 else segment.open()
        nbytes, following = size_at(self._filesystem.pread, fd, position, segment.size)
        self._check_end(segment, position, following, nbytes, unread)

    def _check_end(
        self, segment: Segment, position: int, following: int, nbytes: int, unread: int
    ) -> None:
        """Raise CorruptLogError if a batch does not end where the next one, or the segment, says.

        Batches that begin at or behind `unread` are not checked.
        """
        check_end(
            self._filesystem.pread,
            segment.fd if segment.fd >= 0 else segment.open(),
            position=position,
            nbytes=nbytes,
            following=following,
            limit=segment.size,
            end_offset=self._segments.end_of(segment),
            unread=unread,
        )

    def _position_of_end(self, segment: Segment, end_offset: int) -> int:
        """Where the batch with `end_offset` begins, the first one that may not be read."""
        if end_offset == segment.base_offset:
            return 0
        position = self._segments.positions.get(end_offset)
        if position is None:
            if self._lost.ranges:
                return self._position_behind(segment, end_offset)
            found = self._lookup.find(segment, end_offset)
            if found is None:
                return segment.size
            position = found[0]
            if found[1] == end_offset:
                # Readers of committed records ask for it again until the transaction there has ended.
                self._remember(end_offset, position)
        return position

    def _remember(self, offset: int, position: int) -> None:
        positions = self._segments.positions
        if len(positions) >= POSITIONS_KEPT:
            positions.clear()
        positions[offset] = position

    def _position_behind(self, segment: Segment, end_offset: int) -> int:
        """As `_position_of_end`, but without reading the batch there, which may be damaged."""
        found = self._lookup.find(segment, end_offset - 1)
        if found is None:
            return segment.size
        position, _, following, nbytes = found
        return position + nbytes if following <= end_offset else position

    def _cut(
        self, segment: Segment, position: int, max_bytes: int, min_one_batch: bool, end_offset: int
    ) -> tuple[int, int]:
        """(length, next offset) of the batches from `position` on that fit into `max_bytes`.

        The caller knows that `end_offset` is further away than that.
        """
        pread = self._filesystem.pread
        fd = segment.fd if segment.fd >= 0 else segment.open()
        first = size_at(pread, fd, position, segment.size)
        if first[0] >= max_bytes:
            if first[0] > max_bytes:
                # A damaged length may be this large, and so many bytes would be read into memory.
                self._check_end(segment, position, first[1], first[0], end_offset)
            # Batches as large as the fetch are common (a full producer batch); no search then.
            return first if min_one_batch or first[0] == max_bytes else (0, position)
        limit = min(position + max_bytes, segment.size)
        boundary = segment.index.floor_position(limit)
        if boundary > position:
            return boundary - position, base_offset_at(pread, fd, boundary)
        end, following = last_boundary(pread, fd, position=position, limit=limit)
        return end - position, following

    def _copy(self, segment: Segment, position: int, nbytes: int) -> bytearray | None:
        """The bytes at `position`; None if not all are in memory: the loop must not wait for a
        disk.
        """
        data = bytearray(nbytes)
        fd = segment.fd if segment.fd >= 0 else segment.open()
        try:
            if self._filesystem.preadv(fd, (data,), position, _NO_WAIT) == nbytes:
                return data
        except OSError as error:
            if error.errno not in _NOT_IN_MEMORY:
                raise
        return None

    def _cut_copy(
        self, segment: Segment, position: int, max_bytes: int, min_one_batch: bool, end_offset: int
    ) -> tuple[int, int, bytearray | None]:
        """As `_cut`, and the batches' bytes; None if they do not fit or are not in memory."""
        data = self._copy(segment, position, max_bytes)
        if data is None:
            return *self._cut(segment, position, max_bytes, min_one_batch, end_offset), None
        _, size, following = batch_at(data, 0, position, segment.size)
        if size == max_bytes:
            return size, following, data
        if size > max_bytes:
            return *self._cut(segment, position, max_bytes, min_one_batch, end_offset), None
        if fits(data, size):
            boundary = segment.index.floor_position(position + max_bytes)
            size = boundary - position
            if size <= 0:
                size, following = last_boundary_in(data, position)
            elif size + HEADER_BYTES <= max_bytes:
                following, _, _ = batch_at(data, size, boundary)
            else:
                following = base_offset_at(self._filesystem.pread, segment.fd, boundary)
        del data[size:]
        return size, following, data
