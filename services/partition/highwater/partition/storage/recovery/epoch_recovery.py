"""Restores a log's leader epochs at a start, from their checkpoint or else from the batches."""

from collections.abc import Iterator, Sequence

from highwater.partition.core.leader_epochs import LeaderEpochCache
from highwater.partition.storage import checkpoint
from highwater.partition.storage.errors import CorruptCheckpointError
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.segment.batches import headers
from highwater.partition.storage.segment.segment import Segment


def read_epochs(filesystem: FileSystem, path: str) -> tuple[LeaderEpochCache, bool]:
    """(the checkpoint's epochs, whether it was usable). Raises OSError.

    A checkpoint without entries is unusable: a power cut empties a file that was not synced.
    """
    try:
        entries = checkpoint.read_epochs(filesystem, path)
        return LeaderEpochCache(entries or ()), bool(entries)
    except (CorruptCheckpointError, ValueError):
        return LeaderEpochCache(), False


def rebuild_epochs(filesystem: FileSystem, segments: Sequence[Segment]) -> LeaderEpochCache:
    """Read the epochs from the batches; skip a segment if the next one begins in the same epoch.

    Raises OSError, CorruptLogError.
    """
    epochs = LeaderEpochCache()
    firsts = [next(_headers(filesystem, segment), None) for segment in segments]
    for number, segment in enumerate(segments):
        first = firsts[number]
        following = firsts[number + 1] if number + 1 < len(segments) else None
        if first is None:
            continue
        if first[2] > epochs.latest:
            epochs.assign(first[2], first[0])
        if following is not None and following[2] == first[2]:
            continue
        for fields in _headers(filesystem, segment):
            if fields[2] > epochs.latest:
                epochs.assign(fields[2], fields[0])
    return epochs


def _headers(filesystem: FileSystem, segment: Segment) -> Iterator[tuple[int, ...]]:
    if segment.size:
        walk = headers(filesystem.pread, segment.open(), position=0, limit=segment.size)
        for _, fields in walk:
            yield fields
