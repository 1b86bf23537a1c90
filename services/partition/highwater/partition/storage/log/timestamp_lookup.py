"""Finds records by timestamp in a segment (Kafka's `LogSegment.findOffsetByTimestamp`).

The time index and the batch headers lead to one batch; only that batch is decoded. Batches behind
known damage are not read.
"""

from typing import Final

from highwater.kafka.errors import RecordsError
from highwater.kafka.records.batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    BatchHeader,
    RecordBatchView,
)
from highwater.kafka.records.record import read_records
from highwater.partition.storage.segment.batches import Pread, headers
from highwater.partition.storage.segment.segment import Segment

DECOMPRESSED_BYTES_MAX: Final = 64 << 20
"""A batch that decompresses to more is answered from its header."""


def first_at_or_after(
    pread: Pread, segment: Segment, timestamp: int, start_offset: int
) -> tuple[int, int, int] | None:
    """(timestamp, offset, leader epoch) of the first record, from `start_offset` on, with at least
    `timestamp`; None if the segment has none.
    """
    _, indexed_offset = segment.time_index.floor(timestamp)
    position = segment.index.floor(max(indexed_offset, start_offset))
    walk = headers(pread, segment.open(), position=position, limit=segment.walkable)
    for position, fields in walk:
        if fields[8] < timestamp or fields[0] + fields[6] < start_offset:
            continue
        found = _in_batch(pread, segment, position, fields, timestamp, start_offset)
        if found is not None:
            return found
    return None


def first_with_largest(pread: Pread, segment: Segment) -> tuple[int, int] | None:
    """(timestamp, offset) of the first record with the segment's largest timestamp.

    Compaction may have removed that record but not its batch's header. Then the largest timestamp
    of a batch with records counts.
    """
    largest = segment.largest_timestamp()
    if largest < 0:
        return None
    position = segment.index.floor(segment.max_timestamp_offset)
    return _first_with(pread, segment, position, largest) or _of_what_is_left(pread, segment)


def _of_what_is_left(pread: Pread, segment: Segment) -> tuple[int, int] | None:
    walk = headers(pread, segment.open(), position=0, limit=segment.walkable)
    largest = max((fields[8] for _, fields in walk if fields[12] > 0), default=-1)
    return _first_with(pread, segment, 0, largest) if largest >= 0 else None


def _first_with(
    pread: Pread, segment: Segment, position: int, largest: int
) -> tuple[int, int] | None:
    walk = headers(pread, segment.open(), position=position, limit=segment.walkable)
    for place, fields in walk:
        if fields[8] >= largest:
            found = _in_batch(pread, segment, place, fields, largest, fields[0])
            if found is not None:
                return found[0], found[1]
    return None


def _in_batch(
    pread: Pread,
    segment: Segment,
    position: int,
    fields: tuple[int, ...],
    timestamp: int,
    start_offset: int,
) -> tuple[int, int, int] | None:
    """The first such record of one batch.

    If the records cannot be decompressed within the limit, the answer is the batch's first offset
    and largest timestamp. That offset is never too late, so a consumer misses nothing.
    """
    header = BatchHeader._make(fields)
    data = pread(segment.open(), header.batch_length + LENGTH_OVERHEAD, position)
    if len(data) < HEADER_SIZE:
        return None
    try:
        for record in read_records(RecordBatchView(data, 0, len(data)), DECOMPRESSED_BYTES_MAX):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return record.timestamp, record.offset, header.leader_epoch
    except RecordsError:
        offset = max(header.base_offset, start_offset)
        return header.max_timestamp, offset, header.leader_epoch
    return None
