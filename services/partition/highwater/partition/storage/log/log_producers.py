"""A log's producer states and their snapshots (Kafka's `ProducerStateManager`).

A snapshot is taken when a segment ends. In between, a recent one is replaced from time to time,
for a start on the same kernel after kill -9: see `producer_recovery`.
"""

from collections.abc import Callable, Iterator

from highwater.partition.core.producers import ProducerStates
from highwater.partition.storage import producer_snapshots
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.log.log_segments import LogSegments
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.log.producer_tail import ProducerTail
from highwater.partition.storage.producer_snapshots import SnapshotJob
from highwater.partition.storage.recovery.producer_recovery import (
    load_newest_snapshot,
    remove_snapshots,
    replay,
)


class LogProducers:
    """The producer states of one log, and which of them the files in its directory have."""

    __slots__ = (
        "_place",
        "_segments",
        "_snapshot_due",
        "states",
        "tail",
    )

    def __init__(
        self,
        place: LogPlace,
        segments: LogSegments,
        states: ProducerStates,
        *,
        files_created: bool,
    ) -> None:
        """`states` belong to the log end offset. `files_created`: the log was not closed clean."""
        self._place = place
        self._segments = segments
        self.states = states
        """The same object as long as the log lives: a truncation rebuilds it in place."""
        self.tail = self._new_tail(0 if files_created else len(segments.active.index))
        self._snapshot_due = False

    def _new_tail(self, entries: int) -> ProducerTail:
        place = self._place
        return ProducerTail(
            place.environment,
            place.directory,
            place.life,
            written=(self._segments.active.base_offset, entries),
        )

    def relocated(self) -> None:
        """The log's files are in another log directory, where a snapshot tells of all its records."""
        self.tail.close()
        self.tail = self._new_tail(len(self._segments.active.index))

    def expire(self) -> Iterator[int]:
        """Remove producers that were silent for too long; see `ProducerStates.expire`."""
        place = self._place
        return self.states.expire(place.clock.wall_ms(), place.config.producer_id_expiration_ms)

    # -- snapshots ------------------------------------------------------------------------------

    def rolled(self, _base_offset: int) -> None:
        """Note that a snapshot is due; the log must first catch up (`take_due_snapshot`)."""
        self._snapshot_due = True

    def take_due_snapshot(self) -> None:
        """If a snapshot is due, write the states at the log end offset, on another thread.

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
                self.states.packed(),
                life=place.life,
            )
        except OSError as error:
            raise LogDirFailure(place.directory, error) from error
        place.environment.run_later(job.run, _nothing)

    def write_snapshot(self) -> None:
        """Write the states at the log end offset, on this thread. Raises OSError."""
        directory = self._place.directory
        producer_snapshots.write(
            self._place.filesystem,
            producer_snapshots.snapshot_path(directory, self._segments.end_offset),
            self.states.packed(),
        )

    def write_recent(self, high_watermark: Callable[[], int]) -> None:
        """Replace the recent snapshot on another thread, if the log has grown enough since.

        The states belong to the log end offset. Raises OSError.
        """
        active = self._segments.active
        self.tail.follow(
            self.states,
            place=(active.base_offset, len(active.index)),
            end_offset=self._segments.end_offset,
            high_watermark=high_watermark,
        )

    # -- truncation -----------------------------------------------------------------------------

    def cut(self, end: int) -> None:
        """The log was truncated to `end`: rebuild the states from the newest snapshot and the log.

        Raises OSError, CorruptLogError.
        """
        self.tail.cut(end)
        place, segments = self._place, self._segments
        start = load_newest_snapshot(
            self.states,
            place.filesystem,
            place.directory,
            limit=end,
            first=segments.first_base,
            now_ms=place.clock.wall_ms(),
            expiration_ms=place.config.producer_id_expiration_ms,
        )
        replay(place.filesystem, segments.all, self.states, start=start, end=end)

    def emptied(self, offset: int) -> None:
        """The log was emptied, and `remove_snapshots` called before: no state is left."""
        self.cut(offset)

    def remove_snapshots(self) -> None:
        """Remove all producer files of the directory. Raises OSError."""
        remove_snapshots(self._place.filesystem, self._place.directory)


def _nothing() -> None:
    """Do nothing: the owner's thread has nothing to complete."""
