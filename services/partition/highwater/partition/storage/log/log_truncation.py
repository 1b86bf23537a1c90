"""Truncates a log, and brings everything that is derived from its batches in line."""

from collections.abc import Sequence
from functools import partial
from operator import itemgetter

from highwater.partition.storage.errors import CorruptIndexError, LogDirFailure
from highwater.partition.storage.log.log_cleaning import LogCleaning
from highwater.partition.storage.log.log_durability import LogDurability
from highwater.partition.storage.log.log_epochs import LogEpochs
from highwater.partition.storage.log.log_events import FollowsEnd
from highwater.partition.storage.log.log_producers import LogProducers
from highwater.partition.storage.log.log_segments import LogSegments
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.log.segment_lookup import SegmentLookup
from highwater.partition.storage.log.segment_removal import SegmentRemoval
from highwater.partition.storage.log.segment_roll import SegmentRoll
from highwater.partition.storage.segment.batches import largest_timestamp
from highwater.partition.storage.segment.segment import Segment
from highwater.partition.storage.segment.time_index import NO_TIMESTAMP


class LogTruncation:
    """Truncates one log, and notifies the parts that depend on its end."""

    __slots__ = (
        "_cleaning",
        "_durability",
        "_epochs",
        "_lookup",
        "_place",
        "_producers",
        "_removal",
        "_roll",
        "_segments",
        "_listeners",
    )

    def __init__(
        self,
        place: LogPlace,
        segments: LogSegments,
        lookup: SegmentLookup,
        *,
        epochs: LogEpochs,
        durability: LogDurability,
        producers: LogProducers,
        roll: SegmentRoll,
        removal: SegmentRemoval,
        cleaning: LogCleaning,
        listeners: Sequence[FollowsEnd],
    ) -> None:
        """All belong to the log. `listeners` depend on its end; some of them are named here, too."""
        self._place = place
        self._segments = segments
        self._lookup = lookup
        self._epochs = epochs
        self._durability = durability
        self._producers = producers
        self._roll = roll
        self._removal = removal
        self._cleaning = cleaning
        self._listeners = listeners

    def truncate_to(self, offset: int, *, high_watermark: int) -> int:
        """See `PartitionLog.truncate_to`; the checkpoint may have `high_watermark`.

        Producer states are rebuilt from the newest snapshot and the log. Epochs that begin at or
        after `offset` are removed, even if they have no records (as by Kafka's
        `UnifiedLog.truncateTo`): a leader without them would find the logs divergent.
        """
        segments = self._segments
        if offset >= segments.end_offset:
            self._epochs.truncate_from_end(offset)
            return segments.end_offset
        self._cleaning.stop(offset)
        if offset <= segments.first_base:
            self.start_at(offset, high_watermark=high_watermark)
            return offset
        try:
            self._cut_segment(segments.number_of(offset), offset, high_watermark)
        except OSError as error:
            raise LogDirFailure(self._place.directory, error) from error
        return segments.end_offset

    def start_at(self, offset: int, *, high_watermark: int) -> None:
        """See `PartitionLog.truncate_fully_and_start_at`; `high_watermark` as in `truncate_to`."""
        self._cleaning.stop()
        # First, so that a snapshot that is being written now does not stay either (`LogLife`).
        self._place.life.truncations += 1
        try:
            # All, even those up to `offset`: they describe this log's old records.
            self._producers.remove_snapshots()
            self._removal.drop(self._segments.all[::-1])
            self._roll.restart(offset)
            self._checkpoint_if_behind(offset, high_watermark)
            self._segments.start_offset = offset
            self._ends_at(offset)
            for part in self._listeners:
                part.emptied(offset)
        except OSError as error:
            raise LogDirFailure(self._place.directory, error) from error

    def _cut_segment(self, number: int, offset: int, high_watermark: int) -> None:
        segments, lookup = self._segments, self._lookup
        segment = segments.all[number]
        found = lookup.with_indexes(segment, partial(lookup.find, segment, offset))
        position, end = (found[0], min(found[1], offset)) if found else (segment.size, offset)
        if self._segments.gaps:
            end = lookup.with_indexes(segment, partial(lookup.end_before, segment, position))
        self._removal.drop(segments.all[:number:-1])
        lookup.with_indexes(segment, partial(segment.truncate_indexes, end))
        self._place.filesystem.ftruncate(segment.open(), position)
        segment.size = position
        segment.forget_timestamps()
        entry = segment.index.last_entry()
        segment.bytes_since_index = position - (entry[1] if entry else 0)
        if position:
            lookup.with_indexes(segment, partial(self._find_largest_timestamp, segment))
        self._checkpoint_if_behind(end, high_watermark)
        self._ends_at(end)
        for part in self._listeners:
            part.cut(end)

    def _find_largest_timestamp(self, segment: Segment) -> None:
        """Find it after a truncation: batches behind the last time index entry need a look, too."""
        timestamp, offset = segment.time_index.last_entry()
        if timestamp > NO_TIMESTAMP and segment.timestamp_of_batch(offset) != timestamp:
            raise CorruptIndexError(f"{segment.time_index.file.path}: the last entry is wrong")
        start = segment.index.floor(offset) if timestamp > NO_TIMESTAMP else 0
        pread = self._place.filesystem.pread
        largest = largest_timestamp(pread, segment.open(), position=start, limit=segment.size)
        segment.max_timestamp, segment.max_timestamp_offset = max(
            (timestamp, offset), largest, key=itemgetter(0)
        )

    def _ends_at(self, end: int) -> None:
        """Set offsets and the active segment after the files were truncated or removed."""
        segments = self._segments
        self._place.life.truncations += 1
        segments.positions.clear()
        segments.end_offset = end
        segments.start_offset = min(segments.start_offset, end)
        segments.activate_last()
        self._roll.set_limits()

    def _checkpoint_if_behind(self, end: int, high_watermark: int) -> None:
        """Write the checkpoints soon if one may name an offset behind `end`: a start would take new
        records there for synced, cleaned or deleted.
        """
        known = (
            self._durability.recovery_point,
            self._cleaning.first_dirty,
            self._segments.start_offset,
            high_watermark,
        )
        if end < max(known):
            self._place.environment.checkpoint_soon()
