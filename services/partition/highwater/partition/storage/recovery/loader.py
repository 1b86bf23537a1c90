"""Opens a partition's directory: finds its segments, the log's end, and all derived state.

In this order:

1. `partition_files` completes or undoes an interrupted cleaning or deletion.
2. The front: does the log begin where its leader epochs say?
3. `segment_ends`: does each segment that need not be read end where the next one begins? After a
  clean stop, or if the kernel kept running, only a doubtful segment is read.
4. The tail: after a clean stop the headers after the last index entry are read; if the kernel kept
  running, the batches there are checked; after a power cut everything from the recovery point on.
5. Producer states come from the newest snapshot within the log and the headers after it, leader
  epochs from their checkpoint and the headers that were read.

`findings` has the table of findings and their meaning.
"""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from highwater.partition.core.leader_epochs import LeaderEpochCache
from highwater.partition.core.producers import ProducerStates
from highwater.partition.storage import checkpoint
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.errors import (
    CorruptCheckpointError,
    CorruptIndexError,
    CorruptLogError,
    DamagedHeaderError,
)
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.names import DAMAGE, LEADER_EPOCH_CHECKPOINT
from highwater.partition.storage.recovery.epoch_recovery import read_epochs, rebuild_epochs
from highwater.partition.storage.recovery.findings import Findings
from highwater.partition.storage.recovery.partition_files import PartitionFiles
from highwater.partition.storage.recovery.producer_recovery import (
    RECENT,
    load_newest_snapshot,
    replay,
)
from highwater.partition.storage.recovery.recovery import (
    BatchReplay,
    ResumePoint,
    looks_torn,
    rebuild_indexes,
    recover_segment,
    resume_point,
)
from highwater.partition.storage.recovery.segment_ends import (
    End,
    Gaps,
    offsets_rise,
    read_gaps,
    segment_end,
    shorter_than_indexed,
    write_gaps,
)
from highwater.partition.storage.recovery.transaction_recovery import rebuild_transaction_indexes
from highwater.partition.storage.segment.batches import ANYWHERE
from highwater.partition.storage.segment.segment import Segment, SegmentFactory


@dataclass(slots=True, kw_only=True)
class LoadedLog:
    """The result of `load`; the log takes over these objects."""

    segments: list[Segment]
    """In order of base offset, at least one; the last is active."""
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    epochs: LeaderEpochCache
    producers: ProducerStates
    recovered_segments: int
    """How many segments were checked batch by batch."""
    gaps: bool
    """Whether compaction may have left offsets without a record."""
    files_created: bool
    """Whether names in the directory may not be durable yet."""
    truncated_bytes: int
    """Bytes cut off after the last whole batch, in all segments."""
    damaged: bool
    """Whether more is missing than a killed process leaves unwritten (see `findings`)."""
    lost: tuple[tuple[int, int], ...]
    """[first, end) offsets of records that were found damaged earlier."""


class LogLoader:
    """Loads one partition's directory; used once."""

    def __init__(
        self,
        directory: str,
        *,
        config: LogConfig,
        factory: SegmentFactory,
        now_ms: int,
        clean: bool,
        recovery_point: int,
        log_start_offset: int,
        compacted: bool = False,
        cache_intact: bool = False,
        on_loss: Callable[[], None] = lambda: None,
    ) -> None:
        """`recovery_point` and `log_start_offset` come from the checkpoints, 0 if unknown.

        `compacted`: the cleaner's checkpoint lists the log. `cache_intact`: no completed write of
        the last process is lost. `on_loss` is called, at most once, before records are cut off
        whose loss the node must report; it may raise LogDirFailure.
        """
        self._directory = directory
        self._config = config
        self._factory = factory
        self._filesystem: FileSystem = factory.filesystem
        self._now_ms = now_ms
        self._clean = clean
        self._stopped_clean = clean
        self._recovery_point = recovery_point
        self._log_start_offset = log_start_offset
        self._compacted = compacted
        self._cache_intact = cache_intact and not clean
        self._on_loss = on_loss
        self._found = Findings()
        self._gaps = Gaps.NOWHERE
        self._epochs_known = False
        self._first_base = 0
        """The first segment's base offset."""
        self._checked_from: int | None = None
        """Base offset of the first segment that was checked as a whole."""
        self._whole_up_to = 0
        """Position in the last segment up to which its index proves that nothing is missing."""

    def load(self) -> LoadedLog:
        """Read the directory.

        Raises OSError, CorruptLogError, UnsupportedFormatError, and LogDirFailure from `on_loss`.
        """
        files = PartitionFiles(self._directory, self._factory)
        self._files = files
        created = not (files.names and self._clean)
        epochs, self._epochs_known = read_epochs(
            self._filesystem, files.path(LEADER_EPOCH_CHECKPOINT)
        )
        before = epochs.entries()
        front_missing = self._front_missing(epochs)
        files.finish_cleaning()
        self._read_gaps()
        segments = files.segments()
        self._first_base = segments[0].base_offset if segments else 0
        for name in RECENT:
            if not self._cache_intact and name in files.names:
                files.unlink(name)
        if front_missing:
            self._note_loss()
            self._discard(segments, hole=before[0][1])
            segments = []
            self._log_start_offset = max(self._log_start_offset, before[0][1])
        producers = ProducerStates(self._config.producers_max)
        snapshot = self._load_snapshot(producers, None)
        batch_replay = BatchReplay(epochs=epochs, producers=producers, producers_from=snapshot)
        end = self._find_end(segments, batch_replay)
        start = max(self._log_start_offset, segments[0].base_offset if segments else 0)
        if end < start and segments and self._cache_intact:
            self._note_loss()  # No log start was ever kept beyond the end of what was written.
        if end < start or not segments:
            self._discard(segments, hole=end)
            segments = [self._factory.create(start, now_ms=self._now_ms)]
            end = self._first_base = start
            batch_replay.producers_from = self._load_snapshot(producers, end)
        elif snapshot > end:
            batch_replay.producers_from = self._load_snapshot(producers, end)
            self._replay_producers(segments, batch_replay, end=end)
        if not self._epochs_known or not batch_replay.epochs_agree:
            epochs = rebuild_epochs(self._filesystem, segments)
        self._restore_transactions(segments, end, markers=batch_replay.markers)
        epochs.truncate_from_end(end)
        epochs.truncate_from_start(start)
        if epochs.entries() != before:
            # Even if the scan only found new epochs: the next start may not read those batches.
            self._write_epochs(epochs)
        return LoadedLog(
            segments=segments,
            log_start_offset=start,
            log_end_offset=end,
            recovery_point=min(end if self._clean else self._recovery_point, end),
            epochs=epochs,
            producers=producers,
            gaps=self._gaps is not Gaps.NOWHERE,
            recovered_segments=self._found.recovered_segments,
            files_created=created or not self._clean,
            truncated_bytes=self._found.truncated_bytes,
            damaged=self._found.lost,
            lost=self._lost(end) if DAMAGE in files.names else (),
        )

    # -- reading --------------------------------------------------------------------------------

    def _front_missing(self, epochs: LeaderEpochCache) -> bool:
        """Whether segments before the first one are missing although nobody deleted them.

        A deletion also drops the epochs of the deleted segments. If it was interrupted before
        that, renamed files still wait to be removed; then the epochs are dropped here.
        """
        first, base = next(iter(epochs.entries()), None), self._files.first_base()
        if first is None:
            return False
        if base is None:
            return not self._files.deleted_before(ANYWHERE)  # There is always an active segment.
        if max(first[1], self._log_start_offset) >= base:
            return False
        if not self._files.deleted_before(base):
            return True
        epochs.truncate_from_start(base)
        self._write_epochs(epochs)
        return False

    def _read_gaps(self) -> None:
        """Read the marker; create one if only the cleaner's checkpoint lists the log.

        That checkpoint was written by Kafka or an earlier version and may get lost.
        """
        self._gaps = read_gaps(self._filesystem, self._directory, self._files.names)
        if self._compacted and self._gaps is Gaps.NOWHERE:
            self._gaps = Gaps.ANYWHERE
            write_gaps(self._filesystem, self._directory, self._gaps)

    def _find_end(self, segments: list[Segment], batch_replay: BatchReplay) -> int:
        """The log end offset. Drops segments after a hole; replays producers up to the end."""
        if not segments:
            return self._log_start_offset
        self._drop_deleted(segments)
        unchecked = self._first_to_check(segments)
        for number, segment in enumerate(segments[:unchecked]):
            last = number + 1 == len(segments)
            self._complete_indexes(segment, None if last else segments[number + 1].base_offset)
        if self._clean:
            end = self._end_after_clean_stop(segments, unchecked)
            if end is not None:
                self._replay_producers(segments, batch_replay, end=end)
                return end
            self._clean = False
            unchecked = min(unchecked, len(segments) - 1)
        elif shorter_than_indexed(self._filesystem, segments[-1]):
            self._note_loss()
        if self._cache_intact and unchecked == len(segments) - 1:
            end = self._check_tail(segments, batch_replay)
            if end is not None:
                return end
        self._replay_producers(
            segments[:unchecked], batch_replay, end=segments[unchecked].base_offset
        )
        return self._check_segments(segments, unchecked, batch_replay)

    def _drop_deleted(self, segments: list[Segment]) -> None:
        """Drop segments before a hole in deleted records, so that the log has no hole."""
        for number in range(len(segments) - 2, -1, -1):
            following = segments[number + 1].base_offset
            if following <= self._log_start_offset and (
                segment_end(self._filesystem, segments[number]) != following
            ):
                self._files.remove(segments[: number + 1])
                del segments[: number + 1]
                self._first_base = segments[0].base_offset
                return

    def _first_to_check(self, segments: list[Segment]) -> int:
        """Index of the first segment whose batches must be checked; len(segments) if there is none.

        It is the segment with the recovery point, or the last one if the last process left nothing
        unwritten, or an earlier one that does not end where the next one begins.
        """
        recovery = 0
        for number in range(len(segments) - 1, -1, -1):
            if segments[number].base_offset <= self._recovery_point:
                recovery = number
                break
        all_written = self._clean or self._cache_intact
        stop = len(segments) - 1 if all_written else recovery
        for number in range(stop):
            following = segments[number + 1].base_offset
            end = segment_end(self._filesystem, segments[number])
            if end == following or (
                isinstance(end, int) and end < following and self._gaps is Gaps.ANYWHERE
            ):
                continue
            if (self._clean or number < recovery) and self._bytes_changed(
                segments[number], end, following
            ):
                continue  # Readers and the scrubber find it; other replicas may repair it.
            return number
        return len(segments) if self._clean else stop

    def _bytes_changed(self, segment: Segment, end: int | End, following: int) -> bool:
        """Whether a segment was whole on disk and has changed since, without becoming shorter."""
        if not isinstance(end, int):
            return end is End.UNREADABLE
        return end > following or not offsets_rise(self._filesystem, segment)

    def _end_after_clean_stop(self, segments: list[Segment], unchecked: int) -> int | None:
        """The end offset if the log is as it was closed; None if batches have to be checked."""
        if unchecked == len(segments):
            segment = segments[-1]
            end = segment_end(self._filesystem, segment)
            shorter = shorter_than_indexed(self._filesystem, segment)
            if isinstance(end, int) and end >= self._recovery_point and not shorter:
                with contextlib.suppress(CorruptIndexError):
                    entry = segment.index.last_entry()
                    segment.bytes_since_index = segment.size - (entry[1] if entry else 0)
                    return end
        self._note_loss()
        return None

    def _check_segments(
        self, segments: list[Segment], unchecked: int, batch_replay: BatchReplay
    ) -> int:
        """Check segments from number `unchecked` on, drop all after a hole; return the end."""
        expected = self._checked_from = segments[unchecked].base_offset
        for number in range(unchecked, len(segments)):
            segment = segments[number]
            gap = segment.base_offset > expected and self._gaps is not Gaps.ANYWHERE
            if gap or segment.base_offset < expected:
                self._note_loss()
                self._drop_from(segments, number, hole=expected)
                break
            size = segment.size
            end_position, expected = self._recover(segment, batch_replay)
            self._found.recovered_segments += 1
            if end_position < size:
                last = number == len(segments) - 1
                self._cut(segment, end_position, expected, last=last)
                self._drop_from(segments, number + 1, hole=expected)
                break
            segment.preallocated = True  # Perhaps; sealing frees reserved space.
            segment.seal()
        return expected

    def _check_tail(self, segments: list[Segment], batch_replay: BatchReplay) -> int | None:
        """Check the last segment after its last index entry; return the end offset, or None if that
        entry is unreliable. Leave the segment ready for appends.
        """
        segment = segments[-1]
        start = resume_point(self._filesystem, segment)
        if start is None:
            return None
        self._whole_up_to = start.position
        if start.base_offset >= self._log_start_offset:
            known = batch_replay.epochs.epoch_for(start.base_offset)
            self._epochs_known &= known == start.leader_epoch
        end_position, end = start.position, start.base_offset
        with contextlib.suppress(CorruptLogError):
            self._replay_producers(segments, batch_replay, end=end, limit=end_position)
            end_position, end = self._recover(segment, batch_replay, start)
        if end_position == start.position:
            batch_replay.producers_from = self._load_snapshot(batch_replay.producers, None)
            return None
        if end_position < segment.size:
            self._cut(segment, end_position, end, last=True)
        segment.preallocated = True  # Perhaps; sealing frees reserved space.
        return end

    def _recover(
        self, segment: Segment, batch_replay: BatchReplay, start: ResumePoint | None = None
    ) -> tuple[int, int]:
        return recover_segment(
            self._filesystem,
            segment,
            index_interval=self._config.index_interval_bytes,
            expected_offset=segment.base_offset,
            gaps_allowed=self._gaps is not Gaps.NOWHERE,
            replay=batch_replay,
            start=start,
        )

    def _complete_indexes(self, segment: Segment, following: int | None) -> None:
        """Rebuild the indexes of an unchecked segment if files are missing.

        `following` is the next segment's base offset; if there is one, damage is left to readers.
        """
        if not segment.size:
            segment.index.reset()
            segment.time_index.reset()
            segment.forget_timestamps()
            return
        if segment.indexes_missing:
            try:
                rebuild_indexes(
                    self._filesystem,
                    segment,
                    index_interval=self._config.index_interval_bytes,
                    end_offset=ANYWHERE if following is None else following,
                )
            except DamagedHeaderError:
                if following is None:
                    raise
            segment.seal()

    # -- cutting --------------------------------------------------------------------------------

    def _note_loss(self) -> None:
        """Report, before the cut, that more is missing than a killed process leaves unwritten."""
        if not self._found.lost:
            self._found.lost = True
            self._on_loss()

    def _cut(self, segment: Segment, end_position: int, expected: int, *, last: bool) -> None:
        """Cut a segment after its last whole batch, which ends at offset `expected`."""
        torn = last and not self._stopped_clean and end_position >= self._whole_up_to
        if not torn or not looks_torn(self._filesystem, segment, end_position, expected):
            self._note_loss()
        self._found.truncated_bytes += segment.size - end_position
        self._filesystem.ftruncate(segment.open(), end_position)
        segment.size = end_position
        segment.seal()

    def _drop_from(self, segments: list[Segment], number: int, *, hole: int) -> None:
        self._discard(segments[number:], hole=hole)
        del segments[number:]

    def _discard(self, segments: list[Segment], *, hole: int) -> None:
        """Remove segments from the log, which ends at offset `hole`.

        If a power cut cannot explain the hole, their files are set aside.
        """
        if not segments:
            return
        self._found.truncated_bytes += sum(segment.size for segment in segments)
        written = self._stopped_clean or self._cache_intact or hole < self._recovery_point
        if self._found.lost and written and any(segment.size for segment in segments):
            self._files.set_aside(segments, hole)
        else:
            self._files.remove(segments)

    def _restore_transactions(self, segments: list[Segment], end: int, *, markers: bool) -> None:
        """Bring the transaction indexes in line with the batches.

        A completed write brought its entries with it, which were written before. So only segments
        that were checked as a whole, because writes may be lost, and those that a completed cleaning
        put in place need new ones. `markers`: whether the checked batches end transactions.
        """
        segments[-1].transactions.truncate(end)
        checked = ANYWHERE if self._checked_from is None else self._checked_from
        sure = [segment for segment in segments if segment.base_offset < checked]
        rebuild = partial(rebuild_transaction_indexes, self._filesystem, self._directory, segments)
        for number, segment in enumerate(sure):
            if segment.base_offset in self._files.swapped:
                rebuild(number, stop=number + 1)
        if markers and len(sure) < len(segments):
            rebuild(len(sure))
        else:
            for segment in segments[len(sure) :]:
                segment.transactions.reset()

    # -- derived state --------------------------------------------------------------------------

    def _load_snapshot(self, producers: ProducerStates, limit: int | None) -> int:
        return load_newest_snapshot(
            producers,
            self._filesystem,
            self._directory,
            limit=limit,
            first=self._first_base,
            now_ms=self._now_ms,
            expiration_ms=self._config.producer_id_expiration_ms,
        )

    def _replay_producers(
        self,
        segments: list[Segment],
        batch_replay: BatchReplay,
        *,
        end: int,
        limit: int | None = None,
    ) -> None:
        replay(
            self._filesystem,
            segments,
            batch_replay.producers,
            start=batch_replay.producers_from,
            end=end,
            limit=limit,
        )

    def _lost(self, end: int) -> tuple[tuple[int, int], ...]:
        try:
            ranges = checkpoint.read_ranges(self._filesystem, self._files.path(DAMAGE))
        except CorruptCheckpointError:
            return ((0, end),)  # Something is lost, but its place is unknown.
        return tuple(found for found in ranges if found[0] < end)

    def _write_epochs(self, epochs: LeaderEpochCache) -> None:
        checkpoint.write_epochs(
            self._filesystem,
            os.path.join(self._directory, LEADER_EPOCH_CHECKPOINT),
            epochs.entries(),
            durable=False,
        )
