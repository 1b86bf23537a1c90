"""The rule of retention: which segments are too old (Kafka's `UnifiedLog.deleteOldSegments`).

Segments are deleted oldest first, without gaps, and only if all their records are committed.
"""

from collections.abc import Callable, Sequence

from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.segment.segment import Segment


def expired_segments(
    segments: Sequence[Segment],
    log_end_offset: int,
    *,
    config: LogConfig,
    high_watermark: int,
    now_ms: int,
    timestamp_of: Callable[[Segment], int],
) -> int:
    """How many of the oldest segments must be deleted; it may be all of them.

    `timestamp_of` returns a segment's largest timestamp in milliseconds. That may cost a read, so
    it is called for as few segments as possible. If the active segment is among them, the
    caller rolls first. An empty active segment stays.
    """
    if not config.delete_policy:
        return 0
    excess = -1
    if config.retention_bytes >= 0:
        excess = sum(segment.size for segment in segments) - config.retention_bytes
    count = 0
    for number, segment in enumerate(segments):
        last = number + 1 == len(segments)
        end = log_end_offset if last else segments[number + 1].base_offset
        if end > high_watermark or (last and not segment.size):
            break
        too_large = excess - segment.size >= 0
        if not too_large and not _too_old(segment, config, now_ms, timestamp_of):
            break
        excess -= segment.size
        count += 1
    return count


def _too_old(
    segment: Segment, config: LogConfig, now_ms: int, timestamp_of: Callable[[Segment], int]
) -> bool:
    if config.retention_ms < 0:
        return False
    timestamp = timestamp_of(segment)
    return now_ms - (timestamp if timestamp >= 0 else segment.created_ms) > config.retention_ms
