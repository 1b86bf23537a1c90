"""Restores a partition's producer state from the newest snapshot and the batches after it.

A snapshot is taken when a segment is rolled, perhaps a gigabyte ago. `.highwater_producers` is a
snapshot that is replaced every few hundred KiB and never synced: it is for a start after a killed
process, on the same kernel. After a power cut it may describe batches that are gone, so it is
removed. Its newest version with a committed offset is kept beside it, for truncations.
`log.producer_tail` writes both.

   uint32 CRC-32C of the rest, int64 offset, then the content of a snapshot file
"""

import os
from collections.abc import Sequence
from operator import itemgetter
from struct import Struct
from typing import Final

from crc32c import crc32c

from highwater.kafka.errors import RecordsError
from highwater.kafka.primitives import Buffer
from highwater.kafka.records.batch import CONTROL_BIT, LENGTH_OVERHEAD, TRANSACTIONAL_BIT
from highwater.kafka.records.control import CONTROL_BYTES_MAX, EndMarker, read_end_marker
from highwater.partition.core.producers import ProducerStates
from highwater.partition.core.sequences import last_sequence
from highwater.partition.core.transactions import AbortedTransaction
from highwater.partition.storage import producer_snapshots
from highwater.partition.storage.errors import (
    CorruptCheckpointError,
    CorruptIndexError,
    CorruptLogError,
)
from highwater.partition.storage.filesystem import (
    FileSystem,
    read_file,
    unlink_if_present,
)
from highwater.partition.storage.names import (
    COMMITTED_PRODUCERS,
    RECENT_PRODUCERS,
    SNAPSHOT_SUFFIX,
    offset_file,
)
from highwater.partition.storage.segment.batches import HEADER_BYTES, Pread, headers
from highwater.partition.storage.segment.segment import Segment

RECENT: Final = (RECENT_PRODUCERS, COMMITTED_PRODUCERS)
_CRC: Final = Struct(">I")
_OFFSET: Final = Struct(">q")


def replay_batch(
    producers: ProducerStates, fields: Sequence[int], marker: EndMarker | None = None
) -> AbortedTransaction | None:
    """Apply one batch, as `batches.HEADER` unpacks it, if it has a producer id.

    Of a control batch, `marker` is what it says (`marker_at`, or `read_end_marker`), None if that
    was removed by compaction. Returns the transaction that it ends, if any.
    """
    producer_id, sequence, attributes = fields[9], fields[11], fields[5]
    if producer_id < 0:
        return None
    if attributes & CONTROL_BIT:
        if marker is None:
            return None
        ended = producers.record_marker(
            producer_id, fields[10], marker.coordinator_epoch, fields[0], fields[8]
        )
        return None if marker.committed else ended
    if sequence >= 0 or attributes & TRANSACTIONAL_BIT:
        base_offset, delta = fields[0], fields[6]
        producers.record_append(
            producer_id,
            fields[10],
            last_sequence(sequence, delta),
            base_offset,
            delta,
            fields[8],
            transactional=bool(attributes & TRANSACTIONAL_BIT),
        )
    return None


def marker_in(batch: Buffer, fields: Sequence[int]) -> EndMarker | None:
    """What a whole control batch says. Raises CorruptLogError."""
    try:
        return read_end_marker(memoryview(batch)[HEADER_BYTES:], fields[12])
    except RecordsError as error:
        raise CorruptLogError(f"control batch at offset {fields[0]}: {error}") from error


def marker_at(pread: Pread, fd: int, position: int, fields: Sequence[int]) -> EndMarker | None:
    """What the control batch at a position says. Raises CorruptLogError, OSError."""
    nbytes = fields[1] + LENGTH_OVERHEAD
    if nbytes > CONTROL_BYTES_MAX:
        raise CorruptLogError(f"control batch of {nbytes} bytes at offset {fields[0]}")
    return marker_in(pread(fd, nbytes, position), fields)


def load_newest_snapshot(
    producers: ProducerStates,
    filesystem: FileSystem,
    directory: str,
    *,
    limit: int | None,
    now_ms: int,
    expiration_ms: int,
    first: int = 0,
    names: Sequence[str] | None = None,
) -> int:
    """Set `producers` to the newest readable snapshot from `first` up to `limit`; return its
    offset, 0 if there is none.

    Snapshots beyond `limit` are removed: they describe batches that are not in the log. Those
    before `first`, the first segment's base offset, are ignored: batches in between are unknown. A
    producer with an old sequence would be refused (OUT_OF_ORDER), an unknown one may continue.
    `names` are the directory's files, if the caller has listed them.
    """
    producers.clear()
    present = filesystem.listdir(directory) if names is None else names
    recent, recent_offset = max(
        (_recent(filesystem, directory, name, limit) for name in RECENT if name in present),
        key=itemgetter(1),
        default=(b"", 0),
    )
    if recent_offset < first:
        recent, recent_offset = b"", 0
    for offset in reversed(producer_snapshots.offsets(present)):
        path = os.path.join(directory, offset_file(offset, SNAPSHOT_SUFFIX))
        if limit is not None and offset > limit:
            unlink_if_present(filesystem, path)
            continue
        if offset <= recent_offset or offset < first:
            break
        try:
            entries = producer_snapshots.read(filesystem, path)
        except (CorruptCheckpointError, FileNotFoundError):
            continue
        producers.load(entries, now_ms=now_ms, expiration_ms=expiration_ms)
        producers.transactions.loaded(offset)
        return offset
    producers.load(recent, now_ms=now_ms, expiration_ms=expiration_ms)
    producers.transactions.loaded(recent_offset)
    return recent_offset


def remove_snapshots(filesystem: FileSystem, directory: str) -> None:
    """Remove all files of producer state from a directory. Raises OSError."""
    names = filesystem.listdir(directory)
    for offset in producer_snapshots.offsets(names):
        unlink_if_present(filesystem, os.path.join(directory, offset_file(offset, SNAPSHOT_SUFFIX)))
    for name in RECENT:
        if name in names:
            unlink_if_present(filesystem, os.path.join(directory, name))


def encode_recent(offset: int, packed: Sequence[bytes]) -> bytes:
    """The content of `.highwater_producers`: the producer states before `offset`."""
    content = _OFFSET.pack(offset) + producer_snapshots.encode_history(packed)
    return _CRC.pack(crc32c(content)) + content


def _recent(
    filesystem: FileSystem, directory: str, name: str, limit: int | None
) -> tuple[bytes, int]:
    """The producers in a file of `RECENT`, and its offset; (b"", 0) if it is unusable."""
    path = os.path.join(directory, name)
    try:
        data = read_file(filesystem, path, limit=producer_snapshots.FILE_BYTES_MAX)
        content = data[_CRC.size :]
        if len(content) < _OFFSET.size or _CRC.unpack_from(data)[0] != crc32c(content):
            return b"", 0
        offset = int(_OFFSET.unpack_from(content)[0])
        if limit is not None and offset > limit:
            unlink_if_present(filesystem, path)
            return b"", 0
        return producer_snapshots.decode(content[_OFFSET.size :]), offset
    except (CorruptCheckpointError, FileNotFoundError, ValueError):
        return b"", 0


def replay(
    filesystem: FileSystem,
    segments: Sequence[Segment],
    producers: ProducerStates,
    *,
    start: int,
    end: int,
    limit: int | None = None,
) -> None:
    """Apply the batches of `segments` from offset `start` on. The last segment ends at offset
    `end`, which is at position `limit` in it (None: at the file's end).
    """
    for number, segment in enumerate(segments):
        last = number + 1 == len(segments)
        following = end if last else segments[number + 1].base_offset
        if following <= start or not segment.size:
            continue
        try:
            position = segment.index.floor(start) if start > segment.base_offset else 0
        except CorruptIndexError:
            position = 0
        stop = segment.size if limit is None or not last else limit
        pread, fd = filesystem.pread, segment.open()
        for at, fields in headers(pread, fd, position=position, limit=stop):
            if fields[0] >= start:
                control = fields[5] & CONTROL_BIT
                marker = marker_at(pread, fd, at, fields) if control else None
                replay_batch(producers, fields, marker)
