"""Chooses the part of a log to compact next (Kafka's `LogCleanerManager`, `Cleaner`), pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from highwater.partition.storage.segment.segment import SegmentSpan

OFFSET_DELTA_MAX: Final = (1 << 31) - 1
"""Largest offset relative to a segment's base offset: the range of an index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanable:
    """Offsets [start, end) may be cleaned; [first_dirty, end) was not cleaned yet."""

    start: int
    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int

    @property
    def dirty_ratio(self) -> float:
        """Share of bytes that were written since the last pass; 0 if there are none."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def cleanable(
    segments: Sequence[SegmentSpan],
    *,
    first_dirty: int,
    stable_offset: int,
    now_ms: int,
    lag_ms_min: int,
) -> Cleanable:
    """The part of the sealed `segments`, oldest first, that may be cleaned now.

    `first_dirty` is the checkpointed end of the last pass. If truncation or deletion has put it
    outside the log, cleaning begins at the start. Only whole segments below the last stable offset
    are cleaned: a record that may be truncated or aborted must not replace another. A record younger
    than `lag_ms_min` [min.compaction.lag.ms] excludes its segment and those after it.
    """
    start = segments[0].base_offset if segments else 0
    end = start
    for segment in segments:
        too_young = lag_ms_min > 0 and segment.max_timestamp > now_ms - lag_ms_min
        if segment.next_offset > stable_offset or too_young:
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
    """Whether a log with this dirty ratio should be cleaned.

    True if the ratio is above [min.cleanable.dirty.ratio], or if the oldest dirty record, written
    at `dirty_since_ms`, has waited longer than `lag_ms_max` [max.compaction.lag.ms].
    """
    if ratio <= 0:
        return False
    return ratio > ratio_min or now_ms - dirty_since_ms > lag_ms_max


def grouped(
    segments: Sequence[SegmentSpan], *, segment_bytes: int, index_bytes_max: int
) -> list[list[SegmentSpan]]:
    """Group adjacent segments that are written as one, because cleaning has made them small.

    Sizes before the pass count, so the result is not larger. A segment that is too large by itself
    is a group of its own.
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
