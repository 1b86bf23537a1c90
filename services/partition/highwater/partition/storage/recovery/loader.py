"""Opens the files of a partition's directory: which segments there are and where the log ends.

A cleaning that was cut off is finished or undone first (`compaction_swap`). After a clean shutdown
nothing is scanned but the headers behind the last index entry. After a crash every segment from the
recovery point on is checked batch by batch, and the log ends with the last whole batch; producers
come from the newest snapshot that is not beyond that end and the headers after it, leader epochs
from their checkpoint and the headers that were scanned.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from highwater.kafka.records.batch import LENGTH_OVERHEAD
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
from highwater.partition.storage.filesystem import FileSystem, sync_directory, unlink_if_present
from highwater.partition.storage.names import (
    DAMAGE,
    GAPS_MARKER,
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_file,
    parse_offset_file,
)
from highwater.partition.storage.recovery import compaction_swap
from highwater.partition.storage.recovery.producer_recovery import RECENT, newest_snapshot, replay
from highwater.partition.storage.recovery.recovery import (
    BatchReplay,
    ResumePoint,
    looks_torn,
    rebuild_indexes,
    recover_segment,
    resume_point,
)
from highwater.partition.storage.segment.batches import ANYWHERE, headers
from highwater.partition.storage.segment.segment import Segment, SegmentFactory


@dataclass(slots=True, kw_only=True)
class LoadedLog:
    """What `load` found; the log takes these objects over."""

    segments: list[Segment]
    """Ascending by base offset, at least one; the last is the active one."""
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    epochs: LeaderEpochCache
    producers: ProducerStates
    recovered_segments: int
    """How many segments were checked batch by batch."""
    gaps: bool
    """Whether a marker says that offsets may be missing."""
    files_created: bool
    """Whether names in the directory may not be on disk yet."""
    truncated_bytes: int
    """Bytes cut off behind the last whole batch, in all segments."""
    damaged: bool
    """Whether batches were cut off that no crash of a process can have torn."""
    lost: tuple[tuple[int, int], ...]
    """[first, end) offsets of records that were found damaged before."""


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
    ) -> None:
        """`recovery_point` and `log_start_offset` come from the checkpoints, 0 if unknown.

        `compacted`: the cleaner's checkpoint has the log. `cache_intact`: every write is there which
        ended before the last process did.
        """
        self._directory = directory
        self._config = config
        self._factory = factory
        self._filesystem: FileSystem = factory.filesystem
        self._now_ms = now_ms
        self._clean = clean
        self._recovery_point = recovery_point
        self._log_start_offset = log_start_offset
        self._gaps = compacted
        self._cache_intact = cache_intact and not clean
        self._epochs_known = False
        self._first_base = 0
        """Where the first segment begins."""
        self._recovered = 0
        self._truncated_bytes = 0
        self._damaged = False
        self._whole_up_to = 0
        """Position in the last segment: an index entry says that what is before was written."""

    def load(self) -> LoadedLog:
        """Reads the directory. Raises OSError, CorruptLogError, UnsupportedFormatError."""
        names = self._filesystem.listdir(self._directory)
        if self._finish_cleaning(names):
            names = self._filesystem.listdir(self._directory)
        marked = GAPS_MARKER in names
        self._gaps |= marked
        segments = self._segments(names)
        self._first_base = segments[0].base_offset if segments else 0
        for name in RECENT:
            if not self._cache_intact and name in names:
                self._unlink(name)
        epochs = self._epochs()
        before = epochs.entries()
        producers, snapshot = self._newest_snapshot(None)
        batch_replay = BatchReplay(epochs=epochs, producers=producers, producers_from=snapshot)
        end = self._find_end(segments, batch_replay)
        start = max(self._log_start_offset, segments[0].base_offset if segments else 0)
        if end < start or not segments:
            self._discard(segments)
            segments = [self._factory.create(start, now_ms=self._now_ms)]
            end = self._first_base = start
            batch_replay.producers, batch_replay.producers_from = self._newest_snapshot(end)
        elif snapshot > end:
            batch_replay.producers, batch_replay.producers_from = self._newest_snapshot(end)
            self._replay_producers(segments, batch_replay, end=end)
        if not self._epochs_known or not batch_replay.epochs_agree:
            epochs = self._rebuild_epochs(segments)
        epochs.truncate_from_end(end)
        epochs.truncate_from_start(start)
        if epochs.entries() != before:
            # Also when the scan has found some: the next start may not look at their batches.
            self._write_epochs(epochs)
        return LoadedLog(
            segments=segments,
            log_start_offset=start,
            log_end_offset=end,
            recovery_point=min(end if self._clean else self._recovery_point, end),
            epochs=epochs,
            producers=batch_replay.producers,
            gaps=marked,
            recovered_segments=self._recovered,
            files_created=not (names and self._clean),
            truncated_bytes=self._truncated_bytes,
            damaged=self._damaged,
            lost=self._lost(end) if DAMAGE in names else (),
        )

    def _find_end(self, segments: list[Segment], batch_replay: BatchReplay) -> int:
        """The log end offset; segments behind a tear are dropped, producers brought up to it."""
        if not segments:
            return self._log_start_offset
        unchecked = self._first_to_check(segments)
        if self._cache_intact:
            unchecked = self._first_not_whole(segments, unchecked)
        for number, segment in enumerate(segments[:unchecked]):
            last = number + 1 == len(segments)
            self._complete_indexes(segment, None if last else segments[number + 1].base_offset)
        if self._clean:
            end = self._end_of_clean(segments[-1])
            if end is not None:
                self._replay_producers(segments, batch_replay, end=end)
                return end
            self._clean = False
            unchecked = len(segments) - 1
        if self._cache_intact and unchecked == len(segments) - 1:
            end = self._check_tail(segments, batch_replay)
            if end is not None:
                return end
        self._replay_producers(
            segments[:unchecked], batch_replay, end=segments[unchecked].base_offset
        )
        return self._check_segments(segments, unchecked, batch_replay)

    def _finish_cleaning(self, names: list[str]) -> bool:
        """Finishes or undoes what cleaning or deletion has begun; whether there was any."""
        steps = compaction_swap.recovery(names, self._end_of_swapped)
        for step in steps:
            match step:
                case compaction_swap.Unlink():
                    self._unlink(step.name)
                case compaction_swap.Rename():
                    self._filesystem.rename(self._path(step.old), self._path(step.new))
                case compaction_swap.SyncDirectory():
                    sync_directory(self._filesystem, self._directory)
                case compaction_swap.SyncFile():
                    raise AssertionError("a recovery writes no file")
                case _:
                    assert_never(step)
        return bool(steps)

    def _end_of_swapped(self, base: int) -> int:
        """The offset after the last batch of `<base>.log.swap`. Raises CorruptLogError, OSError."""
        path = self._path(offset_file(base, LOG_SUFFIX) + SWAP_SUFFIX)
        fd = self._filesystem.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            end, size = base, self._filesystem.fstat(fd).st_size
            for _, fields in headers(self._filesystem.pread, fd, position=0, limit=size):
                end = fields[0] + fields[6] + 1
        finally:
            self._filesystem.close(fd)
        if end == base:
            raise CorruptLogError(f"{path} holds nothing that could replace a segment")
        return end

    def _segments(self, names: list[str]) -> list[Segment]:
        """Existing segments; leftovers of what was being written are removed."""
        bases: list[int] = []
        present = set(names)
        for name in names:
            if name.endswith(TEMPORARY_SUFFIX):
                self._unlink(name)
            elif (base := parse_offset_file(name, LOG_SUFFIX)) is not None:
                bases.append(base)
        for name in names:
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
                base = parse_offset_file(name, suffix)
                if base is not None and name.removesuffix(suffix) + LOG_SUFFIX not in present:
                    self._unlink(name)
        return [self._factory.existing(base) for base in sorted(bases)]

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def _unlink(self, name: str) -> None:
        unlink_if_present(self._filesystem, self._path(name))

    def _first_to_check(self, segments: list[Segment]) -> int:
        """Index of the first segment that must be checked; len(segments) after a clean stop."""
        if self._clean:
            return len(segments)
        for number in range(len(segments) - 1, -1, -1):
            if segments[number].base_offset <= self._recovery_point:
                return number
        return 0

    @property
    def _gaps_allowed(self) -> bool:
        """Whether offsets may be missing in what is checked.

        Only compaction leaves gaps: here, which a marker says, or in a leader whose batches these
        are. If the recovery point is not known, the whole log is checked, and may be from Kafka
        and compacted: then a gap is no proof of loss, and cutting there could lose everything.
        """
        return self._gaps or self._config.compact or self._recovery_point == 0

    def _check_segments(
        self, segments: list[Segment], unchecked: int, batch_replay: BatchReplay
    ) -> int:
        """Checks segments from number `unchecked` on, drops what follows a tear; the end offset."""
        expected = segments[unchecked].base_offset
        for number in range(unchecked, len(segments)):
            segment = segments[number]
            overlaps = segment.base_offset < expected
            if overlaps or (segment.base_offset > expected and not self._gaps_allowed):
                self._drop_from(segments, number)
                break
            size = segment.size
            end_position, expected = self._recover(segment, batch_replay)
            self._recovered += 1
            if end_position < size:
                self._note_damage(segment, end_position, expected, last=number == len(segments) - 1)
                self._cut(segment, end_position)
                self._drop_from(segments, number + 1)
                break
            segment.preallocated = True  # It may be; sealing gives back what was reserved.
            segment.seal()
        return expected

    def _recover(
        self, segment: Segment, batch_replay: BatchReplay, start: ResumePoint | None = None
    ) -> tuple[int, int]:
        return recover_segment(
            self._filesystem,
            segment,
            index_interval=self._config.index_interval_bytes,
            expected_offset=segment.base_offset,
            gaps_allowed=self._gaps_allowed,
            replay=batch_replay,
            start=start,
        )

    def _first_not_whole(self, segments: list[Segment], number: int) -> int:
        """The first segment from `number` on that does not end where the next one begins.

        The last one at the latest. All before it were complete when they were rolled, and the
        kernel still has what was written then.
        """
        while number < len(segments) - 1:
            following = self._end_of_clean(segments[number])
            base = segments[number + 1].base_offset
            if following is None or following > base:
                break
            if following < base and not self._gaps_allowed:
                break
            number += 1
        return number

    def _check_tail(self, segments: list[Segment], batch_replay: BatchReplay) -> int | None:
        """Checks the last segment behind its last index entry; the end offset, or None if that
        entry cannot be relied on. Leaves the segment as it is, to be appended to.
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
            batch_replay.producers, batch_replay.producers_from = self._newest_snapshot(None)
            return None
        if end_position < segment.size:
            self._note_damage(segment, end_position, end, last=True)
            self._cut(segment, end_position)
        segment.preallocated = True  # It may be; sealing gives back what was reserved.
        return end

    def _note_damage(
        self, segment: Segment, end_position: int, expected: int, *, last: bool
    ) -> None:
        """Whether what is about to be cut off is more than a write that was cut short."""
        if self._cache_intact:
            torn = last and end_position >= self._whole_up_to
            torn = torn and looks_torn(self._filesystem, segment, end_position, expected)
            self._damaged |= not torn

    def _end_of_clean(self, segment: Segment) -> int | None:
        """The end offset by the headers behind the last index entry; None if they do not fit."""
        following = segment.base_offset
        end = 0
        try:
            entry = segment.index.last_entry()
            start = entry[1] if entry else 0
            if segment.size:
                for position, fields in headers(
                    self._filesystem.pread, segment.open(), position=start, limit=segment.size
                ):
                    following = fields[0] + fields[6] + 1
                    end = position + fields[1] + LENGTH_OVERHEAD
        except (CorruptLogError, CorruptIndexError):
            return None
        if end != segment.size or following < segment.base_offset:
            return None
        segment.bytes_since_index = segment.size - start
        return following

    def _complete_indexes(self, segment: Segment, following: int | None) -> None:
        """Rebuilds the indexes of a segment that is not checked, if files are missing.

        Damage is for those to meet who read it, if there is a segment behind, at offset `following`.
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

    def _cut(self, segment: Segment, end_position: int) -> None:
        self._truncated_bytes += segment.size - end_position
        self._filesystem.ftruncate(segment.open(), end_position)
        segment.size = end_position
        segment.seal()

    def _drop_from(self, segments: list[Segment], number: int) -> None:
        self._discard(segments[number:])
        del segments[number:]

    def _discard(self, segments: list[Segment]) -> None:
        """Removes the files of segments that no longer belong to the log."""
        for segment in segments:
            self._truncated_bytes += segment.size
            segment.close()
            for path in (segment.file, segment.index.path, segment.time_index.path):
                unlink_if_present(self._filesystem, path)

    def _newest_snapshot(self, limit: int | None) -> tuple[ProducerStates, int]:
        return newest_snapshot(
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

    def _headers(self, segment: Segment) -> Iterator[tuple[int, ...]]:
        if segment.size:
            walk = headers(self._filesystem.pread, segment.open(), position=0, limit=segment.size)
            for _, fields in walk:
                yield fields

    def _epochs(self) -> LeaderEpochCache:
        """The checkpoint's epochs; `_epochs_known` says whether it could be used.

        One without entries tells nothing: a power cut empties a file that was not synced.
        """
        path = os.path.join(self._directory, LEADER_EPOCH_CHECKPOINT)
        try:
            entries = checkpoint.read_epochs(self._filesystem, path)
            epochs = LeaderEpochCache(entries or ())
        except (CorruptCheckpointError, ValueError):
            return LeaderEpochCache()
        self._epochs_known = bool(entries)
        return epochs

    def _lost(self, end: int) -> tuple[tuple[int, int], ...]:
        try:
            ranges = checkpoint.read_ranges(self._filesystem, self._path(DAMAGE))
        except CorruptCheckpointError:
            return ((0, end),)  # Something is lost, and where is not known.
        return tuple(found for found in ranges if found[0] < end)

    def _rebuild_epochs(self, segments: list[Segment]) -> LeaderEpochCache:
        """Epochs from the batches; a segment whose neighbours agree is not walked through."""
        epochs = LeaderEpochCache()
        firsts = [next(self._headers(segment), None) for segment in segments]
        for number, segment in enumerate(segments):
            first = firsts[number]
            following = firsts[number + 1] if number + 1 < len(segments) else None
            if first is None:
                continue
            if first[2] > epochs.latest:
                epochs.assign(first[2], first[0])
            if following is not None and following[2] == first[2]:
                continue
            for fields in self._headers(segment):
                if fields[2] > epochs.latest:
                    epochs.assign(fields[2], fields[0])
        return epochs

    def _write_epochs(self, epochs: LeaderEpochCache) -> None:
        checkpoint.write_epochs(
            self._filesystem,
            os.path.join(self._directory, LEADER_EPOCH_CHECKPOINT),
            epochs.entries(),
            durable=False,
        )
