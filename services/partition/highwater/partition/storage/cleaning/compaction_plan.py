"""Which part of a log compaction takes next (Kafka's `LogCleanerManager`, `Cleaner`), pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from highwater.partition.storage.segment.segment import SegmentSpan

OFFSET_DELTA_MAX: Final = (1 << 31) - 1
"""Offsets of one segment, relative to its base: what its index can hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanable:
    """Offsets that may be cleaned: [start, end), of which [first_dirty, end) has not been yet."""

    start: int
    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int

    @property
    def dirty_ratio(self) -> float:
        """Share of bytes that were written since the last pass; 0 if there is nothing to do."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def cleanable(
    segments: Sequence[SegmentSpan],
    *,
    first_dirty: int,
    high_watermark: int,
    now_ms: int,
    lag_ms_min: int,
) -> Cleanable:
    """What of the sealed `segments`, oldest first, may be cleaned now.

    `first_dirty` is where the last pass has ended, by its checkpoint: one that lies outside the
    log (which was truncated, or deleted from) means from the start. Whole segments only, and none
    that is not committed in full: what may be truncated must not have replaced anything. Records
    younger than `lag_ms_min` [min.compaction.lag.ms] keep their segment, and those after it, away.
    """
    start = segments[0].base_offset if segments else 0
    end = start
    for segment in segments:
        too_young = lag_ms_min > 0 and segment.max_timestamp > now_ms - lag_ms_min
        if segment.next_offset > high_watermark or too_young:
            break
        end = segment.next_offset
    if not start <= first_dirty <= end:
        first_dirty = start
    taken = [segment for segment in segments if segment.next_offset <= end]
    dirty = sum(segment.size for segment in taken if segment.next_offset > first_dirty)
    return Cleanable(
        start=start,
        first_dirty=first_dirty,
        end=end,
        clean_bytes=sum(segment.size for segment in taken) - dirty,
        dirty_bytes=dirty,
    )


def must_clean(
    dirty_since_ms: int, *, now_ms: int, lag_ms_max: int, ratio: float, ratio_min: float
) -> bool:
    """Whether a log with this dirty ratio is due.

    Because its ratio is above [min.cleanable.dirty.ratio], or because its oldest dirty record, written
    at `dirty_since_ms`, has waited for longer than `lag_ms_max` [max.compaction.lag.ms].
    """
    if ratio <= 0:
        return False
    return ratio > ratio_min or now_ms - dirty_since_ms > lag_ms_max


def grouped(
    segments: Sequence[SegmentSpan], *, segment_bytes: int, index_bytes_max: int
) -> list[list[SegmentSpan]]:
    """Neighbours that become one segment, because cleaning has made them small.

    Judged by their sizes before the pass, so the result can only be smaller; a segment that is too
    large by itself is a group of its own.
    """
    groups: list[list[SegmentSpan]] = []
    size = index_bytes = 0
    for segment in segments:
        size += segment.size
        index_bytes += segment.index_bytes
        if (
            not groups
            or size > segment_bytes
            or index_bytes > index_bytes_max
            or segment.next_offset - 1 - groups[-1][0].base_offset > OFFSET_DELTA_MAX
        ):
            groups.append([])
            size, index_bytes = segment.size, segment.index_bytes
        groups[-1].append(segment)
    return groups
