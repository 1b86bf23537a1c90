"""A log's producers and the snapshots of them (Kafka's `ProducerStateManager`).

A snapshot is taken when a segment ends. In between, a recent one is replaced from time to time, for a
start on the same kernel after kill -9: see `producer_recovery`.
"""

from typing import Final

from highwater.partition.core.producers import ProducerStates
from highwater.partition.storage import producer_snapshots
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.log.log_segments import LogSegments
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.producer_snapshots import SnapshotJob
from highwater.partition.storage.recovery.producer_recovery import (
    newest_snapshot,
    remove_snapshots,
    replay,
    write_recent,
)

RECENT_ENTRIES: Final = 128
"""Index entries after which the recent snapshot is written again; a start reads only the headers of
the batches behind it."""
RECENT_PRODUCERS_MAX: Final = 1000
"""Of a log with more producers the recent snapshot is not written: that would hold up the loop."""


class LogProducers:
    """The producers of one log, and which of them the files in its directory have."""

    __slots__ = (
        "_place",
        "_recent_at",
        "_recent_end",
        "_segments",
        "_snapshot_due",
        "states",
    )

    def __init__(
        self,
        place: LogPlace,
        segments: LogSegments,
        states: ProducerStates,
        *,
        files_created: bool,
    ) -> None:
        """`states` are as of the log end offset. `files_created`: the log was not closed clean."""
        self._place = place
        self._segments = segments
        self.states = states
        """Replaced by a truncation."""
        active = segments.active
        self._recent_at = (active.base_offset, 0 if files_created else len(active.index))
        """Base offset and index entries of the active segment when the recent one was written."""
        self._recent_end = 0
        """The log end offset then; 0 if it was not written, or is gone since."""
        self._snapshot_due = False

    def expire(self) -> int:
        """Forgets producers that have been silent for too long; returns how many."""
        place = self._place
        return self.states.expire(place.clock.wall_ms(), place.config.producer_id_expiration_ms)

    # -- snapshots ------------------------------------------------------------------------------

    def segment_ended(self) -> None:
        """A snapshot is due, once the log has caught up with the states (`take_due_snapshot`)."""
        self._snapshot_due = True

    def take_due_snapshot(self) -> None:
        """Has the states written as of the log end offset, on another thread, if that is due.

        Raises LogDirFailure.
        """
        if not self._snapshot_due:
            return
        self._snapshot_due = False
        place = self._place
        try:
            job = SnapshotJob(
                place.filesystem,
                place.directory,
                self._segments.end_offset,
                list(self.states.entries()),
                life=place.life,
            )
        except OSError as error:
            raise LogDirFailure(place.directory, error) from error
        place.environment.run_later(job.run, _nothing)

    def write_snapshot(self) -> None:
        """Writes the states as of the log end offset, here and now. Raises OSError."""
        directory = self._place.directory
        producer_snapshots.write(
            self._place.filesystem,
            producer_snapshots.snapshot_path(directory, self._segments.end_offset),
            list(self.states.entries()),
        )

    def write_recent(self, *, high_watermark: int) -> None:
        """Replaces the recent snapshot if the log has grown enough since. Raises OSError.

        The states are as of the log end offset. The one that is replaced is kept if its offset is
        committed: a log is not cut below it.
        """
        active = self._segments.active
        base, entries = self._recent_at
        written = entries if base == active.base_offset else 0
        if 0 <= len(active.index) - written < RECENT_ENTRIES:
            return
        self._recent_at = active.base_offset, len(active.index)
        if len(self.states) > RECENT_PRODUCERS_MAX:
            return
        end = self._segments.end_offset
        write_recent(
            self._place.filesystem,
            self._place.directory,
            end,
            list(self.states.history()),
            keep=self._recent_end <= high_watermark,
        )
        self._recent_end = end

    # -- truncation -----------------------------------------------------------------------------

    def cut(self, end: int) -> None:
        """The log was cut at `end`: the states are rebuilt from the newest snapshot and the log.

        Raises OSError, CorruptLogError.
        """
        if self._recent_end > end:
            self._recent_end = 0
        place, segments = self._place, self._segments
        self.states, start = newest_snapshot(
            place.filesystem,
            place.directory,
            limit=end,
            first=segments.first_base,
            now_ms=place.clock.wall_ms(),
            expiration_ms=place.config.producer_id_expiration_ms,
        )
        replay(place.filesystem, segments.all, self.states, start=start, end=end)

    def remove_snapshots(self) -> None:
        """Removes all that the directory has of producers. Raises OSError."""
        remove_snapshots(self._place.filesystem, self._place.directory)


def _nothing() -> None:
    """There is nothing to do on the owner's thread."""
