"""Rebuilds a partition's producers from the newest snapshot and the batches after it."""

import os
from collections.abc import Sequence

from highwater.partition.core.producers import ProducerStates, last_sequence
from highwater.partition.storage import producer_snapshots
from highwater.partition.storage.batches import headers
from highwater.partition.storage.errors import CorruptCheckpointError, CorruptIndexError
from highwater.partition.storage.filesystem import FileSystem, unlink_if_present
from highwater.partition.storage.names import SNAPSHOT_SUFFIX, offset_file
from highwater.partition.storage.segment import Segment


def replay_batch(producers: ProducerStates, fields: Sequence[int]) -> None:
    """Takes one batch, as `batches.HEADER` unpacks it; only idempotent ones count."""
    producer_id, sequence = fields[9], fields[11]
    if producer_id >= 0 and sequence >= 0:
        base_offset, delta = fields[0], fields[6]
        producers.record_append(
            producer_id,
            fields[10],
            sequence,
            last_sequence(sequence, delta),
            base_offset,
            base_offset + delta,
            fields[8],
        )


def newest_snapshot(
    filesystem: FileSystem,
    directory: str,
    *,
    limit: int | None,
    now_ms: int,
    expiration_ms: int,
) -> tuple[ProducerStates, int]:
    """Producers of the newest readable snapshot up to `limit`, and its offset (0 if none).

    Snapshots beyond `limit` are removed: they tell of batches that are not in the log.
    """
    producers = ProducerStates()
    for offset in reversed(producer_snapshots.offsets(filesystem.listdir(directory))):
        path = os.path.join(directory, offset_file(offset, SNAPSHOT_SUFFIX))
        if limit is not None and offset > limit:
            unlink_if_present(filesystem, path)
            continue
        try:
            entries = producer_snapshots.read(filesystem, path)
        except (CorruptCheckpointError, FileNotFoundError):
            continue
        producers.load(entries, now_ms=now_ms, expiration_ms=expiration_ms)
        return producers, offset
    return producers, 0


def replay(
    filesystem: FileSystem,
    segments: Sequence[Segment],
    producers: ProducerStates,
    *,
    start: int,
    end: int,
) -> None:
    """Feeds the batches of `segments` from offset `start` on; the last segment ends at `end`."""
    for number, segment in enumerate(segments):
        last = number + 1 == len(segments)
        following = end if last else segments[number + 1].base_offset
        if following <= start or not segment.size:
            continue
        try:
            position = segment.index.floor(start) if start > segment.base_offset else 0
        except CorruptIndexError:
            position = 0
        walk = headers(filesystem.pread, segment.open(), position=position, limit=segment.size)
        for _, fields in walk:
            if fields[0] >= start:
                replay_batch(producers, fields)
