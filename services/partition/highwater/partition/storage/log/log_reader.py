"""The reading half of a partition's log: offsets and timestamps to places in segment files.

`log.py` has the whole log and its invariants.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from highwater.kafka.records.batch import BatchHeader, read_header
from highwater.model.time import Clock
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.errors import (
    CorruptIndexError,
    CorruptLogError,
    DamagedHeaderError,
    DamagedRecordsError,
    LogDirFailure,
    OffsetOutOfRange,
)
from highwater.partition.storage.log.environment import LogEnvironment
from highwater.partition.storage.log.log_slice import LogSlice
from highwater.partition.storage.log.timestamp_lookup import first_at_or_after, first_with_largest
from highwater.partition.storage.recovery.loader import LoadedLog
from highwater.partition.storage.recovery.recovery import checksum_holds, rebuild_indexes
from highwater.partition.storage.segment.batches import (
    HEADER_BYTES,
    base_offset_at,
    check_end,
    find_batch,
    headers,
    last_boundary,
    size_at,
)
from highwater.partition.storage.segment.segment import Segment

POSITIONS_KEPT: Final = 256
"""Remembered places where readers stopped; all are forgotten when there are more."""

EMPTY_SEGMENTS_MAX: Final = 64
"""So many segments without a record does a read pass over, with `pass_empty`: the loop waits."""

_T = TypeVar("_T")


class LogReader:
    """State of a log and everything that does not change it; see `PartitionLog`.

    `_bases` are the base offsets of `_segments`, ascending. `_positions` remembers where some
    batches begin, by base offset, so that a consumer which goes on where it stopped costs no
    look-up. It holds for the segment that has the offset; a segment's own base is always at 0.
    """

    __slots__ = (
        "_active",
        "_bases",
        "_environment",
        "_index_interval",
        "_positions",
        "_segments",
        "clock",
        "config",
        "damaged",
        "directory",
        "epochs",
        "gaps",
        "high_watermark",
        "log_end_offset",
        "log_start_offset",
        "lost",
        "partition",
        "producers",
        "recovered_segments",
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
    ) -> None:
        """Takes over what `LogLoader` found."""
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.config = config
        self.clock = clock
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.high_watermark = loaded.log_start_offset
        self.epochs = loaded.epochs
        self.gaps = loaded.gaps
        """Whether offsets may be missing here, by the marker in the directory."""
        self.producers = loaded.producers
        self.recovered_segments = loaded.recovered_segments
        self.truncated_bytes = loaded.truncated_bytes
        self.damaged = loaded.damaged
        self.lost = loaded.lost
        """[first, end) offsets of records that are known to be damaged; as a rule none."""
        self._environment = environment
        self._index_interval = config.index_interval_bytes
        self._segments = loaded.segments
        self._bases = [segment.base_offset for segment in self._segments]
        self._active = self._segments[-1]
        self._positions: dict[int, int] = {}

    @property
    def active_segment(self) -> Segment:
        """The segment that is appended to."""
        return self._active

    @property
    def segments(self) -> Sequence[Segment]:
        """All segments, oldest first; not to be changed."""
        return self._segments

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as `LeaderEpochCache.end_offset_for` says for this log."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

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
        there is nothing to give. Raises OffsetOutOfRange, CorruptLogError, LogDirFailure.

        `pass_empty` is for consumers: a closed segment that holds nothing more but headers, which
        compaction has left, is given only if nothing follows it. librdkafka takes many answers in
        a row without a record for a sign that a message does not fit. Replicas copy the headers.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)
        if offset >= end_offset or offset == self.log_end_offset:
            return None
        empty: LogSlice | None = None
        passed = 0
        while True:
            if self.lost:
                end_offset = self._before_lost(offset, end_offset)
            segment = self._active
            if offset < segment.base_offset:
                segment = self._segments[bisect_right(self._bases, offset) - 1]
            try:
                found = self._read_segment(segment, offset, max_bytes, end_offset, min_one_batch)
                if found is None:
                    return empty
                if found.length:
                    if not pass_empty or segment is self._active:
                        return found
                    if not found.is_rest_without_records(self._environment.filesystem.pread):
                        return found
                    empty = found
                    passed += 1
            except OSError as error:
                raise LogDirFailure(segment.file, error) from error
            offset = found.next_offset
            ended = offset >= end_offset or offset == self.log_end_offset
            if ended or passed == EMPTY_SEGMENTS_MAX:
                break
        if empty is None and self.lost:
            # There is nothing before the damage, so the reader would wait for ever.
            self._before_lost(offset, end_offset)
        return empty

    def _read_segment(
        self, segment: Segment, offset: int, max_bytes: int, end_offset: int, min_one_batch: bool
    ) -> LogSlice | None:
        """As `_read`, after a look at the segment itself if its indexes do not fit it."""
        try:
            return self._read(segment, offset, max_bytes, end_offset, min_one_batch)
        except (CorruptIndexError, CorruptLogError):
            self._repair_indexes(segment)
        return self._read(segment, offset, max_bytes, end_offset, min_one_batch)

    def _read(
        self, segment: Segment, offset: int, max_bytes: int, end_offset: int, min_one_batch: bool
    ) -> LogSlice | None:
        """What a segment has. A slice of length 0 if it is closed and holds no batch from `offset`
        on, which compaction may do to it.
        """
        segment.referenced = True
        positions = self._positions
        position = 0 if offset == segment.base_offset else positions.get(offset)
        base_offset = offset
        # At the tail, where most read, the first header is not looked at.
        unseen = segment is not self._active or not position
        if position is None:
            found = self._find(segment, offset)
            if found is None or found[1] > offset:
                self._check_gap(segment, offset, segment.size if found is None else found[0])
            if found is None:
                return self._nothing_more(segment, offset)
            position, base_offset, next_offset, nbytes = found
            self._check_end(segment, position, next_offset, nbytes, end_offset)
            positions[base_offset] = position
            unseen = False
        following = self._end_of(segment)
        limit = segment.size
        if end_offset < following:
            following = end_offset
            limit = self._position_of_end(segment, end_offset)
        length = limit - position
        if length > max_bytes:
            length, following = self._cut(segment, position, max_bytes, min_one_batch, end_offset)
        elif unseen and length > 0:
            self._check_at(segment, position, end_offset)
        if length <= 0:
            if position >= segment.size:
                # Remembered as the place behind the last batch; what follows it was compacted.
                return self._nothing_more(segment, offset)
            return None
        if len(positions) >= POSITIONS_KEPT:
            positions.clear()
        positions[following] = position + length
        if segment.fd < 0:
            segment.open()
        return LogSlice(segment, position, length, base_offset, following)

    def load(self, found: LogSlice, done: Callable[[bytes], None]) -> None:
        """Reads a slice on the directory's thread, then calls `done` with its bytes.

        Fewer bytes come if the log was cut meanwhile. If the disk fails, the directory goes
        offline and `done` is never called. Raises LogDirFailure if the file cannot be opened.
        """
        segment, position, length = found.segment, found.position, found.length
        try:
            segment.pin()
        except OSError as error:
            raise LogDirFailure(segment.file, error) from error
        fd, pread = segment.fd, self._environment.filesystem.pread
        read: list[bytes] = []

        def ready() -> None:
            segment.unpin()
            done(read[0])

        self._environment.run_later(lambda: read.append(pread(fd, length, position)), ready)

    @property
    def rotten(self) -> bool:
        """Whether records that may be asked for are known to be damaged."""
        return any(end > self.log_start_offset for _, end in self.lost)

    def _before_lost(self, offset: int, end_offset: int) -> int:
        """Where a read from `offset` has to end. Raises DamagedRecordsError if it cannot begin."""
        for first, end in self.lost:
            if first <= offset < end:
                raise DamagedRecordsError(
                    f"{self.directory}: records {first} to {end - 1} are damaged"
                )
            if offset < first < end_offset:
                end_offset = first
        return end_offset

    def _is_lost(self, offset: int) -> bool:
        return any(first <= offset < end for first, end in self.lost)

    def _end_of(self, segment: Segment) -> int:
        """The offset that follows a segment."""
        if segment is self._active:
            return self.log_end_offset
        following = bisect_right(self._bases, segment.base_offset)
        # None follows while the log is being cut.
        return self._bases[following] if following < len(self._bases) else self.log_end_offset

    def _nothing_more(self, segment: Segment, offset: int) -> LogSlice | None:
        if segment is self._active:
            return None
        return LogSlice(segment, segment.size, 0, offset, self._end_of(segment))

    def _locate(self, segment: Segment, offset: int) -> tuple[int, int] | None:
        """(position, base offset) of the first batch in a segment that ends at or after `offset`."""
        found = self._find(segment, offset)
        return None if found is None else found[:2]

    def _find(self, segment: Segment, offset: int) -> tuple[int, int, int, int] | None:
        """The same batch's position, base offset, next offset and bytes."""
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
        if found is not None and found[1] > offset and found[0] == start > 0:
            raise CorruptIndexError(f"{segment.index.path} points behind offset {offset}")
        return found

    def _check_gap(self, segment: Segment, offset: int, position: int) -> None:
        """Raises DamagedHeaderError if there may be no gap at `offset`, in front of `position`: the
        batch before it may have had more records, or a length that did not go over others.
        """
        pread = self._environment.filesystem.pread
        fd = segment.open()
        start = segment.index.floor(offset)
        before = deque(headers(pread, fd, position=start, limit=position), maxlen=1)
        if not before or checksum_holds(self._environment.filesystem, fd, *before[0]):
            return
        start, last = before[0]
        raise DamagedHeaderError(
            f"the checksum of the batch before offset {offset} does not hold",
            file=segment.path,
            position=start,
            first=last[0],
            end=-1 if segment is self._active else self._end_of(segment),
        )

    def _check_at(self, segment: Segment, position: int, unread: int) -> None:
        """As `_check_end`, for a batch of which nothing is known yet."""
        fd = segment.fd if segment.fd >= 0 else segment.open()
        nbytes, following = size_at(self._environment.filesystem.pread, fd, position, segment.size)
        self._check_end(segment, position, following, nbytes, unread)

    def _check_end(
        self, segment: Segment, position: int, following: int, nbytes: int, unread: int
    ) -> None:
        """Raises CorruptLogError if a batch does not end where the next one, or the segment, says.

        What begins at `unread` or behind it is not to be read.
        """
        check_end(
            self._environment.filesystem.pread,
            segment.fd if segment.fd >= 0 else segment.open(),
            position=position,
            nbytes=nbytes,
            following=following,
            limit=segment.size,
            end_offset=self._end_of(segment),
            unread=unread,
        )

    def _position_of_end(self, segment: Segment, end_offset: int) -> int:
        """Where the batch begins that holds `end_offset`, which is the first not to be read."""
        if end_offset == segment.base_offset:
            return 0
        position = self._positions.get(end_offset)
        if position is None:
            if self.lost:
                return self._position_behind(segment, end_offset)
            found = self._locate(segment, end_offset)
            if found is None:
                return segment.size
            position = found[0]
        return position

    def _position_behind(self, segment: Segment, end_offset: int) -> int:
        """As `_position_of_end`, without a look at what stands there: it may be damaged."""
        found = self._find(segment, end_offset - 1)
        if found is None:
            return segment.size
        position, _, following, nbytes = found
        return position + nbytes if following <= end_offset else position

    def _cut(
        self, segment: Segment, position: int, max_bytes: int, min_one_batch: bool, end_offset: int
    ) -> tuple[int, int]:
        """(length, next offset) of the batches from `position` on that fit into `max_bytes`.

        What begins at `end_offset` is further away than that.
        """
        pread = self._environment.filesystem.pread
        fd = segment.fd if segment.fd >= 0 else segment.open()
        first = size_at(pread, fd, position, segment.size)
        if first[0] >= max_bytes:
            if first[0] > max_bytes:
                # That many bytes may be a length that has changed; they go into memory.
                self._check_end(segment, position, first[1], first[0], end_offset)
            # Batches as large as the fetch are common (a full producer batch); no search then.
            return first if min_one_batch or first[0] == max_bytes else (0, position)
        limit = min(position + max_bytes, segment.size)
        boundary = segment.index.floor_position(limit)
        if boundary > position:
            return boundary - position, base_offset_at(pread, fd, boundary)
        end, following = last_boundary(pread, fd, position=position, limit=limit)
        return end - position, following

    def _repair_indexes(self, segment: Segment) -> None:
        """Rebuilds a segment's indexes, which disagree with it. If the segment itself is damaged,
        raises DamagedHeaderError; its end is known if the segment is closed. Indexes and largest
        timestamp are then those of the batches before the damage.
        """
        self._positions.clear()
        sealed = segment is not self._active
        try:
            rebuild_indexes(
                self._environment.filesystem,
                segment,
                index_interval=self._index_interval,
                end_offset=self._end_of(segment),
            )
        except DamagedHeaderError as error:
            if sealed:
                error.end = self._end_of(segment)
                segment.damaged_at = error.position
                segment.seal()
            raise
        segment.damaged_at = None
        if sealed:
            segment.seal()

    # -- by offset and timestamp, off the hot path ---------------------------------------------

    def batch_header_at(self, offset: int) -> BatchHeader | None:
        """The header of the batch that holds `offset`, or of the next one in a compacted log.

        None at the log end offset. Raises OffsetOutOfRange, CorruptLogError, LogDirFailure.
        """
        found = self.read(offset, HEADER_BYTES, end_offset=self.log_end_offset)
        if found is None:
            return None
        pread = self._environment.filesystem.pread
        return read_header(pread(found.segment.open(), HEADER_BYTES, found.position))

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record that is not older than `timestamp`.

        Searches up to the log end offset; the caller discards what is not committed. None if all
        records are older. Raises LogDirFailure, and CorruptLogError at damage that is not known yet.
        """
        pread = self._environment.filesystem.pread
        first = max(bisect_right(self._bases, self.log_start_offset) - 1, 0)
        for segment in self._segments[first:]:
            if self._by_timestamp(segment, segment.largest_timestamp) < timestamp:
                continue
            look_up = partial(first_at_or_after, pread, segment, timestamp, self.log_start_offset)
            found = self._by_timestamp(segment, look_up)
            if found is not None:
                return found
        return None

    def max_timestamp(self) -> tuple[int, int]:
        """(timestamp, offset) of the first record with the largest timestamp; (-1, -1) if none.

        Raises as `offset_for_timestamp` does.
        """
        pread = self._environment.filesystem.pread
        best = (-1, -1)
        by_age = sorted(
            self._segments, key=lambda s: self._by_timestamp(s, s.largest_timestamp), reverse=True
        )
        for segment in by_age:
            if segment.largest_timestamp() <= best[0]:
                break  # As a rule after the first one; batches that are empty need another look.
            found = self._by_timestamp(segment, partial(first_with_largest, pread, segment))
            if found is not None and found[0] > best[0]:
                best = found
        return best

    def _with_indexes(self, segment: Segment, look_up: Callable[[], _T]) -> _T:
        """Runs a look-up, and once more after rebuilding indexes that turn out to be wrong."""
        try:
            try:
                return look_up()
            except (CorruptIndexError, CorruptLogError):
                self._repair_indexes(segment)
            return look_up()
        except OSError as error:
            raise LogDirFailure(segment.file, error) from error

    def _by_timestamp(self, segment: Segment, look_up: Callable[[], _T]) -> _T:
        """As `_with_indexes`, but damage that is known is no error: what lies behind it, in its
        segment, is not looked at.
        """
        try:
            return self._with_indexes(segment, look_up)
        except DamagedHeaderError as error:
            if not self._is_lost(error.first):
                raise
        return self._with_indexes(segment, look_up)
