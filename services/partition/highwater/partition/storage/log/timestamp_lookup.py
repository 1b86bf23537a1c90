"""Finds batches by timestamp in a segment (Kafka's `LogSegment.findOffsetByTimestamp`).

The time index and the batch headers lead to one batch; only that batch is decoded, which may be done
on another thread. Batches behind known damage are not read.
"""

from typing import Final, NamedTuple

from highwater.kafka.errors import DecodeError
from highwater.kafka.records.batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    BatchHeader,
    RecordBatchView,
)
from highwater.kafka.records.record import first_with_timestamp
from highwater.partition.storage.segment.batches import Pread, headers
from highwater.partition.storage.segment.segment import Segment

DECOMPRESSED_BYTES_MAX: Final = 64 << 20
"""A batch that decompresses to more is answered from its header."""


class Found(NamedTuple):
    """A record by its timestamp."""

    timestamp: int
    """In milliseconds."""
    offset: int
    leader_epoch: int


class BatchQuestion:
    """Asks a batch for its first record from an offset on with at least a timestamp."""

    __slots__ = ("_header", "_position", "_pread", "_start_offset", "_timestamp", "segment")

    def __init__(
        self,
        pread: Pread,
        segment: Segment,
        position: int,
        header: BatchHeader,
        *,
        timestamp: int,
        start_offset: int,
    ) -> None:
        self.segment = segment
        self._pread = pread
        self._position = position
        self._header = header
        self._timestamp = timestamp
        self._start_offset = start_offset

    @property
    def next_offset(self) -> int:
        """The offset that follows the batch."""
        return self._header.base_offset + self._header.last_offset_delta + 1

    def answer(self, fd: int) -> Found | None:
        """The record, None if there is none; on any thread, while `fd` is kept open. Raises OSError.

        If the records cannot be decompressed within the limit, the answer is the batch's first
        offset and largest timestamp. That offset is never too late, so a consumer misses nothing.
        """
        header = self._header
        data = self._pread(fd, header.batch_length + LENGTH_OVERHEAD, self._position)
        if len(data) < HEADER_SIZE:
            return None
        try:
            found = first_with_timestamp(
                RecordBatchView(data, 0, len(data)),
                self._timestamp,
                self._start_offset,
                DECOMPRESSED_BYTES_MAX,
            )
        except DecodeError:
            offset = max(header.base_offset, self._start_offset)
            return Found(header.max_timestamp, offset, header.leader_epoch)
        return None if found is None else Found(*found, header.leader_epoch)


def first_batch(
    pread: Pread, segment: Segment, timestamp: int, start_offset: int
) -> BatchQuestion | None:
    """The first batch from the one that has `start_offset` on whose largest timestamp is at least
    `timestamp`; None if the segment has none.
    """
    _, indexed_offset = segment.time_index.floor(timestamp)
    return _first_batch(pread, segment, max(indexed_offset, start_offset), timestamp, start_offset)


def batch_with_largest(
    pread: Pread, segment: Segment, largest: int, start_offset: int
) -> BatchQuestion | None:
    """As `first_batch`, for the segment's largest timestamp, whose batch is known."""
    near = max(segment.max_timestamp_offset, start_offset)
    return _first_batch(pread, segment, near, largest, start_offset)


def largest_with_records(pread: Pread, segment: Segment) -> int:
    """The largest timestamp of the segment's batches that have records; -1 if none has.

    Compaction may have removed the records of a batch but not its header.
    """
    walk = headers(pread, segment.open(), position=0, limit=segment.walkable)
    return max((fields[8] for _, fields in walk if fields[12] > 0), default=-1)


def _first_batch(
    pread: Pread, segment: Segment, near_offset: int, timestamp: int, start_offset: int
) -> BatchQuestion | None:
    position = segment.index.floor(near_offset)
    for place, fields in headers(pread, segment.open(), position=position, limit=segment.walkable):
        if fields[8] >= timestamp and fields[0] + fields[6] >= start_offset:
            return BatchQuestion(
                pread,
                segment,
                place,
                BatchHeader._make(fields),
                timestamp=timestamp,
                start_offset=start_offset,
            )
    return None
