"""Rebuilds transaction indexes from the log, where they are in doubt or damaged.

A marker does not say where its transaction began. So the batches are walked from the newest
producer snapshot before them on, which knows what was open there (Kafka's `LogSegment.recover` with
`UnifiedLog.rebuildProducerState`). Only headers and markers are read.
"""

import os
from collections.abc import Sequence

from highwater.kafka.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from highwater.partition.core.producer_entry import ENTRY_BYTES, TRANSACTION_BYTES
from highwater.partition.core.producers import producer_id_of
from highwater.partition.core.transactions import AbortedTransaction, Transactions
from highwater.partition.storage import producer_snapshots
from highwater.partition.storage.errors import CorruptCheckpointError, CorruptIndexError
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.names import SNAPSHOT_SUFFIX, offset_file
from highwater.partition.storage.recovery.producer_recovery import marker_at
from highwater.partition.storage.segment.batches import headers
from highwater.partition.storage.segment.segment import Segment


def rebuild_transaction_indexes(
    filesystem: FileSystem,
    directory: str,
    segments: Sequence[Segment],
    first: int,
    *,
    stop: int | None = None,
) -> None:
    """Write the transaction indexes of `segments[first:stop]` anew; `segments` are all of the log.

    Raises OSError, CorruptLogError.
    """
    base = segments[first].base_offset
    transactions = Transactions()
    start = _load_snapshot(filesystem, directory, transactions, segments[0].base_offset, base)
    wanted = segments[first:stop]
    for segment in wanted:
        segment.transactions.reset()
    for number, segment in enumerate(segments[: first + len(wanted)]):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else None
        if not segment.size or (following is not None and following <= start):
            continue
        for aborted in _aborted(filesystem, segment, transactions, start):
            if number >= first:
                segment.transactions.append(aborted)


def _aborted(
    filesystem: FileSystem, segment: Segment, transactions: Transactions, start: int
) -> list[AbortedTransaction]:
    """What ends aborted in one segment, from the offset `start` on."""
    found: list[AbortedTransaction] = []
    try:
        position = segment.index.floor(start) if start > segment.base_offset else 0
    except CorruptIndexError:
        position = 0
    pread, fd = filesystem.pread, segment.open()
    for at, fields in headers(pread, fd, position=position, limit=segment.walkable):
        attributes, producer_id = fields[5], fields[9]
        if fields[0] < start or producer_id < 0:
            continue
        if attributes & CONTROL_BIT:
            marker = marker_at(pread, fd, at, fields)
            if marker is not None:
                ended = transactions.end(producer_id, fields[0], marker.coordinator_epoch)
                if ended is not None and not marker.committed:
                    found.append(ended)
        elif attributes & TRANSACTIONAL_BIT and producer_id not in transactions.open:
            transactions.begin(producer_id, fields[0])
    return found


def _load_snapshot(
    filesystem: FileSystem, directory: str, transactions: Transactions, first: int, limit: int
) -> int:
    """Load what was open at the newest readable snapshot from `first` up to `limit`; its offset,
    or `first` if there is none. Unlike a start, it removes none.
    """
    for offset in reversed(producer_snapshots.offsets(filesystem.listdir(directory))):
        if not first <= offset <= limit:
            continue
        path = os.path.join(directory, offset_file(offset, SNAPSHOT_SUFFIX))
        try:
            entries = producer_snapshots.read(filesystem, path)
        except (CorruptCheckpointError, FileNotFoundError):
            continue
        for at in range(0, len(entries), ENTRY_BYTES):
            entry = entries[at : at + ENTRY_BYTES]
            transactions.load(producer_id_of(entry), entry[-TRANSACTION_BYTES:])
        return offset
    return first
