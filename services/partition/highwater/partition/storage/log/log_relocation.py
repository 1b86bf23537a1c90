"""Moves a log's files to another log directory, while readers go on and appends wait.

`storage.moving.log_move` copies the files first. This part tells what is to be copied (`view`),
keeps the log as it is for a moment (`hold`), and then has the log go on with the copies: two
renames and a change of all that knows the place, in one turn of the owner's loop. Offsets,
producers and epochs are the same before and after; only files are others.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from highwater.partition.storage.errors import LogDirFailure, MoveGivenUpError
from highwater.partition.storage.log.environment import LogEnvironment
from highwater.partition.storage.log.late_writer import LateWriter
from highwater.partition.storage.log.log_cleaning import LogCleaning
from highwater.partition.storage.log.log_epochs import LogEpochs
from highwater.partition.storage.log.log_events import FollowsPlace
from highwater.partition.storage.log.log_producers import LogProducers
from highwater.partition.storage.log.log_segments import LogSegments
from highwater.partition.storage.log.lost_ranges import LostRanges
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.segment.segment import Segment

_WHOLE_LOG: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """The files of one segment, for a copy on another thread."""

    base_offset: int
    next_offset: int
    """Where the next segment begins, or the log ends."""
    size: int
    """Bytes of batches; the file may have reserved space behind them."""
    sealed: bool
    """Whether it grows no more, so that its indexes are complete on disk, too."""
    paths: tuple[str, ...]
    """The `.log` file first, then those of its indexes that exist if they have entries. A segment
    that was just compacted may still have a suffix behind its names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """A log at one moment. Another thread may use all of it but `segments`."""

    directory: str
    files: tuple[SegmentFiles, ...]
    start_offset: int
    end_offset: int
    epochs: tuple[tuple[int, int], ...]
    gaps: bool
    first_dirty: int
    index_bytes: int
    truncations: int
    """See `LogLife`."""
    packed: Sequence[bytes] | None
    """The producers at the end, as a snapshot has them; None if they were not asked for."""
    segments: tuple[Segment, ...]
    """To compare, on the owner's thread only."""


class LogHold:
    """Keeps a log from being cleaned, repaired or written (`log_cleaning.Cleaning`)."""

    end_offset = _WHOLE_LOG

    def __init__(self) -> None:
        self.aborted = False
        """Whether the log was changed, deleted or closed all the same."""

    def abort(self) -> None:
        """See `Cleaning`."""
        self.aborted = True


class LogRelocation:
    """See the module. Lives as long as its log; used on the owner's thread."""

    __slots__ = (
        "_cleaning",
        "_epochs",
        "_late_writer",
        "_listeners",
        "_lost",
        "_place",
        "_producers",
        "_segments",
    )

    def __init__(
        self,
        place: LogPlace,
        segments: LogSegments,
        *,
        late_writer: LateWriter,
        cleaning: LogCleaning,
        epochs: LogEpochs,
        producers: LogProducers,
        lost: LostRanges,
        listeners: Sequence[FollowsPlace],
    ) -> None:
        """All belong to the log. `listeners` are notified of its new place."""
        self._place = place
        self._segments = segments
        self._late_writer = late_writer
        self._cleaning = cleaning
        self._epochs = epochs
        self._producers = producers
        self._lost = lost
        self._listeners = listeners

    @property
    def truncations(self) -> int:
        """How often the log was cut since it was opened."""
        return self._place.life.truncations

    def view(self, *, producers: bool = False) -> LogView:
        """The log now; with its `producers` only if they belong to its end (`hold`)."""
        segments = self._segments
        active = segments.active
        return LogView(
            directory=self._place.directory,
            files=tuple(
                SegmentFiles(
                    segment.base_offset,
                    segments.end_of(segment),
                    segment.size,
                    segment is not active,
                    tuple(segment.paths()),
                )
                for segment in segments.all
            ),
            start_offset=segments.start_offset,
            end_offset=segments.end_offset,
            epochs=tuple(self._epochs.cache.entries()),
            gaps=segments.gaps,
            first_dirty=self._cleaning.first_dirty,
            index_bytes=self._place.config.segment_index_bytes,
            truncations=self.truncations,
            packed=self._producers.states.packed() if producers else None,
            segments=tuple(segments.all),
        )

    def hold(self) -> LogHold | None:
        """Let nothing change the log until `release`, and have all its indexes in their files.

        None if it cannot be held now: it is being written late, cleaned or repaired, or its
        directory hangs. Raises LogDirFailure.
        """
        place, late_writer = self._place, self._late_writer
        busy = late_writer.writing or self._cleaning.running is not None
        if busy or place.life.ended or place.environment.stall.stalled:
            return None
        active = self._segments.active
        try:
            active.time_index.flush()
            active.index.flush()
        except OSError as error:
            raise LogDirFailure(place.directory, error) from error
        late_writer.hold()
        self._cleaning.running = hold = LogHold()
        return hold

    def release(self, hold: LogHold) -> None:
        """End a hold, whatever became of the log."""
        if self._cleaning.running is hold:
            self._cleaning.running = None
        self._late_writer.release()

    def is_as(self, view: LogView, hold: LogHold) -> bool:
        """Whether a held log is still as it was seen, so that a copy made of that is whole.

        DeleteRecords and new epochs do not wait for the hold to end.
        """
        segments = self._segments
        return (
            not hold.aborted
            and not self._place.life.ended
            and not self._lost.ranges
            and self.truncations == view.truncations
            and segments.start_offset == view.start_offset
            and segments.end_offset == view.end_offset
            and segments.gaps == view.gaps
            and self._cleaning.first_dirty == view.first_dirty
            and tuple(self._epochs.cache.entries()) == view.epochs
            and tuple(segments.all) == view.segments
        )

    def move(
        self, copy: str, environment: LogEnvironment, segments: Sequence[Segment], *, aside: str
    ) -> None:
        """Rename the log's directory to `aside` and `copy` to the log's name beside it, and go on
        with `segments`, which describe the files in `copy`. Nothing is synced.

        Nothing on another thread may use paths of the log meanwhile. Raises MoveGivenUpError if the
        copy cannot be renamed: all is then as it was, and the copy may not be used any more, as it
        may have the log's name after a crash. Raises LogDirFailure if the log's directory fails.
        """
        place = self._place
        old, name = place.directory, os.path.basename(place.directory)
        new = os.path.join(os.path.dirname(copy), name)
        try:
            place.filesystem.rename(old, aside)
            try:
                environment.filesystem.rename(copy, new)
            except OSError as error:
                place.filesystem.rename(aside, old)
                raise MoveGivenUpError(f"{copy} cannot be renamed: {error}") from error
        except OSError as error:
            raise LogDirFailure(old, error) from error
        place.directory = new
        place.environment = environment
        place.filesystem = environment.filesystem
        for before, after in zip(self._segments.move(segments), segments, strict=True):
            _take_over(before, after)
            after.moved(new)
            before.moved(aside)
            before.close()
        for part in self._listeners:
            part.relocated()


def _take_over(before: Segment, after: Segment) -> None:
    """What is known of a segment's records holds for its copy."""
    after.created_ms = before.created_ms
    after.bytes_since_index = before.bytes_since_index
    after.first_timestamp = before.first_timestamp
    after.max_timestamp = before.max_timestamp
    after.max_timestamp_offset = before.max_timestamp_offset
