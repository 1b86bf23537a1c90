"""Finds the last whole batch of a segment and rebuilds its indexes (Kafka's `LogSegment.recover`).

After a power cut every byte after the recovery point is in doubt, and is read. A killed process
leaves every completed write in the kernel's memory; only its last write may be torn. While the
same kernel runs (`core.lineage.cache_intact`), recovery reads only what follows the last index
entry on disk. That entry was written after its batch, and after everything that recovery derives
from earlier batches (`resume_point`). Damage before it does not come from a crash; the scrubber
and readers find it.

Files are read, not mapped, so that a bad sector is an error of one log and not a signal.
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final

from crc32c import crc32c

from highwater.kafka.records.batch import CONTROL_BIT, LENGTH_OVERHEAD, MAGIC
from highwater.partition.core.leader_epochs import NO_EPOCH, LeaderEpochCache
from highwater.partition.core.producers import ProducerStates
from highwater.partition.storage.errors import (
    CorruptIndexError,
    CorruptLogError,
    DamagedHeaderError,
    UnsupportedFormatError,
)
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.recovery.producer_recovery import marker_in, replay_batch
from highwater.partition.storage.segment.batches import (
    ANYWHERE,
    BATCH_BYTES_MAX,
    HEADER,
    HEADER_BYTES,
    headers,
)
from highwater.partition.storage.segment.segment import Segment
from highwater.partition.storage.segment.time_index import NO_TIMESTAMP

WINDOW_BYTES: Final = 4 << 20
CRC_COVERS_FROM: Final = 21
"""The CRC covers everything from the attributes on."""

_OLD_MESSAGE: Final = Struct(">qiIB")
"""offset, size, crc, magic of message formats 0 and 1."""
_OLD_CRC_COVERS_FROM: Final = 16
_OLD_SIZE_MIN: Final = 14


class BatchReplay:
    """Applies batch headers, in order, to the state derived from them.

    Producers get batches from `producers_from` on; their snapshot has the earlier ones.
    """

    __slots__ = ("epochs", "epochs_agree", "markers", "producers", "producers_from")

    def __init__(
        self, *, epochs: LeaderEpochCache, producers: ProducerStates, producers_from: int
    ) -> None:
        """`epochs` and `producers` are changed in place."""
        self.epochs = epochs
        self.epochs_agree = True
        """False if a batch has another epoch than `epochs` has for its offset."""
        self.producers = producers
        self.producers_from = producers_from
        self.markers = False
        """Whether a transaction's marker was among the batches."""

    def batch(self, fields: tuple[int, ...], data: memoryview) -> None:
        """Apply one batch, as `HEADER` unpacks it from `data`. Raises CorruptLogError."""
        epoch = fields[2]
        if epoch > self.epochs.latest:
            self.epochs.assign(epoch, fields[0])
        elif epoch < self.epochs.latest:
            # `epochs` may begin behind the first record, since older records may be deleted.
            known = self.epochs.epoch_for(fields[0])
            self.epochs_agree &= known in (epoch, NO_EPOCH)
        marker = marker_in(data, fields) if fields[5] & CONTROL_BIT else None
        self.markers |= marker is not None
        if fields[0] >= self.producers_from:
            replay_batch(self.producers, fields, marker)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePoint:
    """The batch of a segment's last index entry, and the largest timestamp up to it."""

    position: int
    base_offset: int
    leader_epoch: int
    max_timestamp: int
    max_timestamp_offset: int


def resume_point(filesystem: FileSystem, segment: Segment) -> ResumePoint | None:
    """Where checking may begin if no completed write was lost; None: at the segment's beginning.

    An index entry is on disk only after its batch, and after the time index up to there. An entry
    that does not match its batch proves nothing. Raises OSError.
    """
    try:
        entry = segment.index.last_entry()
        timestamp, timestamp_offset = segment.time_index.last_entry()
    except CorruptIndexError:
        return None
    if entry is None or timestamp == NO_TIMESTAMP:
        return None
    last_offset, position = entry
    if not 0 < position <= segment.size - HEADER_BYTES:
        return None
    header = filesystem.pread(segment.open(), HEADER_BYTES, position)
    if len(header) < HEADER_BYTES:
        return None
    fields = HEADER.unpack(header)
    if fields[3] != MAGIC or fields[6] < 0 or fields[0] + fields[6] != last_offset:
        return None
    if fields[0] <= segment.base_offset:
        return None
    return ResumePoint(
        position=position,
        base_offset=fields[0],
        leader_epoch=fields[2],
        max_timestamp=timestamp,
        max_timestamp_offset=timestamp_offset,
    )


def recover_segment(
    filesystem: FileSystem,
    segment: Segment,
    *,
    index_interval: int,
    expected_offset: int,
    gaps_allowed: bool,
    replay: BatchReplay,
    start: ResumePoint | None = None,
) -> tuple[int, int]:
    """Check structure and CRC of every batch and rebuild both indexes.

    Returns (end position, next offset) of the valid prefix; the caller cuts the rest. The first
    batch begins at `expected_offset`, each other one where the one before ends, or later if gaps
    are allowed. With `start`, earlier batches and index entries are trusted; if the returned end
    is `start.position`, they must not be. Raises OSError, and UnsupportedFormatError for messages
    of format 0 or 1 with a valid checksum, which must not be cut off as torn.
    """
    builder = IndexBuilder(segment, index_interval, start)
    end, following = (0, expected_offset) if start is None else (start.position, start.base_offset)
    for position, data in _whole_batches(filesystem, segment, end):
        fields = HEADER.unpack_from(data)
        if fields[0] < following or fields[6] < 0:
            break
        if fields[0] > following and not gaps_allowed:
            break
        if crc32c(data[CRC_COVERS_FROM:]) != fields[4]:
            break
        following = fields[0] + fields[6] + 1
        builder.add(position, len(data), following - 1, fields[8])
        replay.batch(fields, data)
        end = position + len(data)
    builder.finish()
    return end, following


def looks_torn(filesystem: FileSystem, segment: Segment, position: int, expected: int) -> bool:
    """Whether the bytes after a valid prefix may be the beginning of the next batch.

    A killed process leaves nothing else behind a valid prefix. Raises OSError.
    """
    left = segment.size - position
    if left < HEADER_BYTES:
        return True
    fields = HEADER.unpack(filesystem.pread(segment.open(), HEADER_BYTES, position))
    follows = bool(fields[3] == MAGIC and fields[0] >= expected)
    return follows and fields[1] + LENGTH_OVERHEAD > left


def rebuild_indexes(
    filesystem: FileSystem, segment: Segment, *, index_interval: int, end_offset: int = ANYWHERE
) -> None:
    """Rebuild both indexes from headers alone, up to the first damage.

    Batches must be contiguous up to the segment's end; their offsets must rise and stay below
    `end_offset`, the next segment's base offset. Raises DamagedHeaderError, OSError.
    """
    builder = IndexBuilder(segment, index_interval)
    fd = segment.open()
    sound, first = 0, segment.base_offset
    last: tuple[int, ...] | None = None
    """The previous batch; it is trusted once another batch begins where it ends."""
    try:
        for position, fields in headers(filesystem.pread, fd, position=0, limit=segment.size):
            following = first if last is None else last[0] + last[6] + 1
            if fields[0] < following and last is not None and last[0] > first:
                last = None  # There is a gap before the previous batch: one of the two is wrong.
            if fields[0] < following or fields[0] + fields[6] >= end_offset:
                raise CorruptLogError(
                    f"offsets {fields[0]} to {fields[0] + fields[6]} at position {position}, "
                    f"expected in [{following}, {end_offset})"
                )
            if last is not None:
                _add(builder, sound, last)
            sound, first, last = position, following, fields
        if last is not None:
            _add(builder, sound, last)
    except CorruptLogError as error:
        if last is not None and checksum_holds(filesystem, fd, sound, last):
            _add(builder, sound, last)
            sound, first = sound + last[1] + LENGTH_OVERHEAD, last[0] + last[6] + 1
        raise DamagedHeaderError(
            str(error), file=segment.path, position=sound, first=first
        ) from error
    finally:
        segment.index.flush()
        segment.time_index.flush()


def _add(builder: "IndexBuilder", position: int, fields: tuple[int, ...]) -> None:
    builder.add(position, fields[1] + LENGTH_OVERHEAD, fields[0] + fields[6], fields[8])


def checksum_holds(filesystem: FileSystem, fd: int, position: int, fields: tuple[int, ...]) -> bool:
    """Whether a batch, which lies within its segment, matches its checksum. Raises OSError."""
    left = fields[1] + LENGTH_OVERHEAD
    if left > BATCH_BYTES_MAX:
        return False
    end, checksum = position + left, 0
    position += CRC_COVERS_FROM
    while position < end:
        data = filesystem.pread(fd, min(WINDOW_BYTES, end - position), position)
        if not data:
            return False
        checksum = crc32c(data, checksum)
        position += len(data)
    return checksum == fields[4]


class IndexBuilder:
    """Applies Kafka's rule for index entries to the batches of a segment.

    It begins at the segment's start, or at a batch that already has an entry.
    """

    __slots__ = ("_doubted", "_first_known", "_interval", "_segment")

    def __init__(self, segment: Segment, interval: int, start: ResumePoint | None = None) -> None:
        """Empty the segment's indexes unless `start` is given."""
        segment.bytes_since_index = 0
        segment.first_timestamp = None
        if start is None:
            segment.index.reset()
            segment.time_index.reset()
            segment.max_timestamp = NO_TIMESTAMP
            segment.max_timestamp_offset = segment.base_offset
        else:
            segment.max_timestamp = start.max_timestamp
            segment.max_timestamp_offset = start.max_timestamp_offset
        self._first_known = start is not None
        self._doubted = start
        """Unproven largest timestamp; set until the batch with it was read."""
        self._segment = segment
        self._interval = interval

    def add(self, position: int, nbytes: int, last_offset: int, max_timestamp: int) -> None:
        """Add the next batch."""
        segment = self._segment
        if not self._first_known:
            self._first_known = True
            segment.first_timestamp = max_timestamp
        doubted = self._doubted
        if (
            doubted is not None
            and doubted.max_timestamp_offset == last_offset
            and doubted.max_timestamp == max_timestamp
        ):
            self._doubted = None
        if segment.max_timestamp is None or max_timestamp > segment.max_timestamp:
            segment.max_timestamp = max_timestamp
            segment.max_timestamp_offset = last_offset
        if segment.bytes_since_index > self._interval:
            segment.time_index.append(segment.max_timestamp, segment.max_timestamp_offset)
            segment.index.append(last_offset, position)
            segment.bytes_since_index = 0
        segment.bytes_since_index += nbytes

    def finish(self) -> None:
        """Call it after the last batch. An unproven largest timestamp is read when needed."""
        segment, doubted = self._segment, self._doubted
        if doubted is not None and segment.max_timestamp == doubted.max_timestamp:
            segment.max_timestamp = None


def _whole_batches(
    filesystem: FileSystem, segment: Segment, position: int
) -> Iterator[tuple[int, memoryview]]:
    """(position, bytes) of batches by their length field; ends at the first that is not whole."""
    fd = segment.open()
    pread: Callable[[int, int, int], bytes] = filesystem.pread
    size = segment.size
    window, start = memoryview(b""), position
    while size - position >= HEADER_BYTES:
        relative = position - start
        if relative + HEADER_BYTES > len(window):
            window = memoryview(pread(fd, min(WINDOW_BYTES, size - position), position))
            start, relative = position, 0
            if len(window) < HEADER_BYTES:
                break
        fields = HEADER.unpack_from(window, relative)
        nbytes = fields[1] + LENGTH_OVERHEAD
        if fields[3] != MAGIC or nbytes < HEADER_BYTES:
            _refuse_old_format(segment, bytes(window[relative:]), position)
            break
        if nbytes > size - position:
            break
        if relative + nbytes > len(window):
            window = memoryview(pread(fd, max(WINDOW_BYTES, nbytes), position))
            start, relative = position, 0
            if len(window) < nbytes:
                break
        yield position, window[relative : relative + nbytes]
        position += nbytes


def _refuse_old_format(segment: Segment, data: bytes, position: int) -> None:
    _, size, checksum, magic = _OLD_MESSAGE.unpack_from(data)
    if magic > 1 or size < _OLD_SIZE_MIN or LENGTH_OVERHEAD + size > len(data):
        return
    if zlib.crc32(data[_OLD_CRC_COVERS_FROM : LENGTH_OVERHEAD + size]) == checksum:
        raise UnsupportedFormatError(
            f"{segment.path} holds messages of format {magic} at position {position}"
        )
