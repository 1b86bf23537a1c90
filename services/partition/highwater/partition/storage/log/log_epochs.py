"""The leader epochs of a log and their checkpoint file.

Order, for a killed process: the checkpoint has its new content and name before the first record of
an epoch is written, because a start on the same kernel does not read all batches again.
`log_durability.py` has the order for a power cut. The cache is Kafka's `LeaderEpochFileCache`.
"""

import os

from highwater.partition.core.leader_epochs import LeaderEpochCache, LeaderEpochView
from highwater.partition.storage import checkpoint
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.log.log_segments import LogSegments
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.names import LEADER_EPOCH_CHECKPOINT


class LogEpochs:
    """The one owner of a log's epochs: the cache, and what its checkpoint lacks.

    Others read `cache`. Methods that write raise LogDirFailure.
    """

    __slots__ = ("_cache", "_place", "_segments", "_unwritten", "appended", "cache", "unsynced")

    def __init__(
        self, place: LogPlace, segments: LogSegments, cache: LeaderEpochCache, *, unsynced: bool
    ) -> None:
        """`unsynced`: recovery may have written the checkpoint."""
        self._place = place
        self._segments = segments
        self._cache = cache
        self.cache: LeaderEpochView = cache
        """The epochs of the log's batches, and perhaps one that has begun since."""
        self.appended = cache.latest
        """The epoch of the newest append; an append of another epoch goes through `assign`."""
        self.unsynced = unsynced
        """Whether the checkpoint has changed since it was last synced."""
        self._unwritten = False

    @property
    def path(self) -> str:
        """The checkpoint's path."""
        return os.path.join(self._place.directory, LEADER_EPOCH_CHECKPOINT)

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as from `LeaderEpochCache.end_offset_for`, for this log."""
        return self.cache.end_offset_for(epoch, self._segments.end_offset)

    def begin(self, epoch: int) -> None:
        """Note that `epoch` begins at the log end offset (KIP-101), when this replica leads.

        The checkpoint is written at the first append. An epoch without records may be lost, and a
        node that becomes leader of thousands of partitions does not write as many files.
        """
        self._unwritten |= self._cache.assign(epoch, self._segments.end_offset)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` begins at `start_offset`, at the first append of a new epoch."""
        if self._cache.assign(epoch, start_offset) or self._unwritten:
            self._write()
        self.appended = epoch

    def assign_behind(self, epoch: int, start_offset: int) -> None:
        """As `assign`, for records that a late write has put at `start_offset`.

        Epochs that have begun there meanwhile had no records, and go. The checkpoint is written
        once: without `epoch` it may not be, since the log has records of it already.
        """
        self._unwritten |= self._cache.truncate_from_end(start_offset)
        self.assign(epoch, start_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the epochs that begin at or after `end_offset`."""
        if self._cache.truncate_from_end(end_offset):
            self._write()
        self.appended = self.cache.latest

    def cut(self, end: int) -> None:
        """The log was truncated to `end`."""
        self.truncate_from_end(end)

    def start_moved(self, offset: int) -> None:
        """Remove the epochs that end at or before the log start offset."""
        if self._cache.truncate_from_start(offset):
            self._write()

    def emptied(self, _offset: int) -> None:
        """Remove all epochs: the log was emptied."""
        self._cache.clear()
        self._write()
        self.appended = self.cache.latest

    def _write(self) -> None:
        self._unwritten = False
        self.unsynced = True
        path = self.path
        try:
            checkpoint.write_epochs(
                self._place.filesystem, path, self.cache.entries(), durable=False
            )
        except OSError as error:
            raise LogDirFailure(path, error) from error
