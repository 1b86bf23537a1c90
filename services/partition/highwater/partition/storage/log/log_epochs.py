"""The leader epochs of a log and their checkpoint file.

Order for a killed process: the checkpoint has its new content and name before the first record of
an epoch is written, because a start on the same kernel does not look at all batches again.
`log_durability.py` has the order for a power cut. The cache is Kafka's `LeaderEpochFileCache`.
"""

import os

from highwater.partition.core.leader_epochs import LeaderEpochCache
from highwater.partition.storage import checkpoint
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.log.log_segments import LogSegments
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.names import LEADER_EPOCH_CHECKPOINT


class LogEpochs:
    """The cache, and what of it the checkpoint does not have yet. All methods that write raise
    LogDirFailure.
    """

    __slots__ = ("_place", "_segments", "_unwritten", "appended", "cache", "unsynced")

    def __init__(
        self, place: LogPlace, segments: LogSegments, cache: LeaderEpochCache, *, unsynced: bool
    ) -> None:
        """`unsynced`: the checkpoint may have been written by recovery."""
        self._place = place
        self._segments = segments
        self.cache = cache
        """The epochs of the log's batches, and one that has begun since."""
        self.appended = cache.latest
        """The epoch of the newest append; an append of another one goes through `assign`."""
        self.unsynced = unsynced
        """Whether the checkpoint has changed since it was last synced."""
        self._unwritten = False

    @property
    def path(self) -> str:
        """Where the checkpoint lies."""
        return os.path.join(self._place.directory, LEADER_EPOCH_CHECKPOINT)

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as `LeaderEpochCache.end_offset_for` says for this log."""
        return self.cache.end_offset_for(epoch, self._segments.end_offset)

    def begin(self, epoch: int) -> None:
        """Notes that `epoch` begins at the log end offset (KIP-101), as a leader does.

        The checkpoint follows with the first append: an epoch without records may be forgotten,
        and a node that comes to lead thousands of partitions does not write as many files.
        """
        self._unwritten |= self.cache.assign(epoch, self._segments.end_offset)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Notes that `epoch` begins at `start_offset`, at the first append of a new epoch."""
        if self.cache.assign(epoch, start_offset) or self._unwritten:
            self._write()
        self.appended = epoch

    def truncate_from_end(self, end_offset: int) -> None:
        """Forgets the epochs that begin at or after `end_offset`."""
        if self.cache.truncate_from_end(end_offset):
            self._write()
        self.appended = self.cache.latest

    def cut(self, end: int) -> None:
        """The log was cut at `end`."""
        self.truncate_from_end(end)

    def start_moved(self, offset: int) -> None:
        """Forgets the epochs that end at or before the log start offset."""
        if self.cache.truncate_from_start(offset):
            self._write()

    def emptied(self, _offset: int) -> None:
        """Forgets all: the log was emptied."""
        self.cache.clear()
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
