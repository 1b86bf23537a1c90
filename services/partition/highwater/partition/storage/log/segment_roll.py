"""When a log's active segment ends, and how the next one begins.

The rule is Kafka's `LogSegment.shouldRoll`. The active segment's disk space is reserved here, too.
"""

from collections.abc import Sequence
from typing import Final

from highwater.partition.storage.errors import DamagedHeaderError, LogDirFailure
from highwater.partition.storage.log.log_events import FollowsRolls
from highwater.partition.storage.log.log_segments import LogSegments
from highwater.partition.storage.log.lost_ranges import LostRanges
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.log.segment_lookup import SegmentLookup
from highwater.partition.storage.recovery.segment_ends import segment_end
from highwater.partition.storage.segment.preallocation import CHUNK_BYTES, GrowthMonitor
from highwater.partition.storage.segment.segment import Segment, SegmentFactory

RELATIVE_OFFSET_MAX: Final = 0x7FFF_FFFF
_ALWAYS: Final = -(1 << 63)


class SegmentRoll:
    """The limits of the active segment, and the roll. Lives as long as its log.

    An append above one of the limits goes through `append_with_care`, which rolls or reserves disk
    space if needed. So the hot path makes only three comparisons.
    """

    __slots__ = (
        "_factory",
        "_growth",
        "_lookup",
        "_lost",
        "_place",
        "_segments",
        "_listeners",
        "offset_limit",
        "size_limit",
        "timestamp_limit",
    )

    def __init__(
        self,
        place: LogPlace,
        segments: LogSegments,
        lookup: SegmentLookup,
        *,
        lost: LostRanges,
        factory: SegmentFactory,
        listeners: Sequence[FollowsRolls],
    ) -> None:
        """All belong to the log; `factory` makes its segments. `listeners` are notified of each roll."""
        self._place = place
        self._segments = segments
        self._lookup = lookup
        self._lost = lost
        self._listeners = listeners
        self._factory = factory
        self._growth = GrowthMonitor(place.clock.monotonic_ms())
        self.size_limit = 0
        """Maximal size of the active segment in bytes; -1 if nothing may be appended."""
        self.timestamp_limit = _ALWAYS
        """The largest timestamp that the active segment may have."""
        self.offset_limit = 0
        """The largest offset that may follow the active segment's last record."""
        self.set_limits()

    def set_limits(self) -> None:
        """Set the limits after a change of the active segment, or of the configs."""
        segment = self._segments.active
        config = self._place.config
        full = segment.index.is_full() or segment.time_index.is_full()
        self.size_limit = -1 if full else min(config.segment_bytes, self._growth.look_at)
        self.offset_limit = segment.base_offset + RELATIVE_OFFSET_MAX + 1
        first = segment.first_timestamp if segment.size else None
        if first is None or first < 0 or segment.max_timestamp is None:
            self.timestamp_limit = _ALWAYS
        else:
            self.timestamp_limit = first + config.segment_ms - config.segment_jitter_ms

    def index_full(self) -> None:
        """The active segment's indexes are full: let the next append roll."""
        self.size_limit = -1

    def reconfigured(self) -> None:
        """Take new configs; existing segments keep the size of their indexes."""
        self._factory.index_bytes = self._place.config.segment_index_bytes
        self.set_limits()

    def relocated(self) -> None:
        """The log's files are in another log directory, and its next segments will be."""
        place = self._place
        self._factory = SegmentFactory(
            place.directory,
            index_bytes=place.config.segment_index_bytes,
            filesystem=place.filesystem,
            files=place.environment.files,
            maps=place.environment.maps,
        )
        self.set_limits()

    def due(self, nbytes: int, max_timestamp: int, next_offset: int) -> bool:
        """Whether a batch of `nbytes` that ends before `next_offset` needs a new segment."""
        segment = self._segments.active
        config = self._place.config
        if not segment.size:
            return False
        if segment.size + nbytes > config.segment_bytes:
            return True
        if next_offset - 1 - segment.base_offset > RELATIVE_OFFSET_MAX:
            return True
        if segment.index.is_full() or segment.time_index.is_full():
            return True
        first = self._lookup.first_timestamp(segment)
        now = self._place.clock.wall_ms()
        waited = max_timestamp - first if first >= 0 else now - segment.created_ms
        return waited > config.segment_ms - config.segment_jitter_ms

    def fitting(self, sizes: Sequence[int], ends: Sequence[int], first: int) -> int:
        """Index after the last batch, from `first` on, that fits; at least one does."""
        active = self._segments.active
        room = self._place.config.segment_bytes - active.size - sizes[first]
        limit = active.base_offset + RELATIVE_OFFSET_MAX + 1
        stop = first + 1
        while stop < len(sizes) and sizes[stop] <= room and ends[stop] <= limit:
            room -= sizes[stop]
            stop += 1
        return stop

    def reserve(self, segment: Segment, end: int) -> None:
        """Reserve disk space: the whole segment if preallocate is set, a chunk if it grows fast."""
        config = self._place.config
        room = config.segment_bytes - segment.size
        if config.preallocate and not segment.size:
            segment.preallocate(room)
        growth = self._growth
        if end <= growth.look_at or not growth.grown(end, self._place.clock.monotonic_ms()):
            return
        growth.enabled = segment.preallocate(min(CHUNK_BYTES + end - segment.size, room))

    def leave_damaged(self, base_offset: int) -> None:
        """If the active segment's batches cannot be walked over, note what is lost and roll. Then
        batches from `base_offset` on can be found, and a repair can restore the rest.
        """
        segment = self._segments.active
        seen = segment.max_timestamp is not None and segment.first_timestamp is not None
        if seen or not segment.size:
            return
        try:
            self._lookup.with_indexes(segment, segment.load_first_timestamp)
            self._lookup.largest_timestamp(segment)
        except DamagedHeaderError as error:
            self._lost.add(error.first, base_offset)
            self.roll(base_offset)

    def roll(self, base_offset: int) -> None:
        """Seal the active segment and begin one at `base_offset`; sync the old one elsewhere.

        The producer snapshot follows when the log has caught up with the producer states. Raises
        LogDirFailure.
        """
        place = self._place
        try:
            old = self._segments.active
            old.seal()
            if self._segments.gaps:
                # Segments must be contiguous: recovery takes anything else for a hole.
                end = segment_end(place.filesystem, old)
                base_offset = end if isinstance(end, int) else base_offset
            segment = self._factory.create(base_offset, now_ms=place.clock.wall_ms())
        except OSError as error:
            raise LogDirFailure(place.directory, error) from error
        self._segments.add(segment)
        self._segments.activate_last()
        self._growth.rolled()
        for part in self._listeners:
            part.rolled(base_offset)
        self.set_limits()

    def restart(self, offset: int) -> None:
        """Begin an empty segment at `offset` in a log without segments. Raises OSError."""
        self._segments.add(self._factory.create(offset, now_ms=self._place.clock.wall_ms()))
