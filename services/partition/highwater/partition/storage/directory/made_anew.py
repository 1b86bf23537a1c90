"""Logs that are made under the name of another one, of which the checkpoints on the disk may still tell.

A topic may be deleted and made again, and a damaged log be set aside, within moments. The directory's
checkpoints name partitions only, and are replaced on a worker, which a slow disk may hold up for long. A
process that is killed meanwhile would open the new log with the other one's log start offset, high watermark
and recovery point, and cut off records that were acknowledged.

So such a log gets a mark, an empty file, before it takes records, and loses it once the checkpoints tell of
itself. A start that finds the mark knows nothing of the log from the checkpoints.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from highwater.partition.storage.directory.log_directory import DirectoryOffsets, Partition
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.filesystem import FileSystem, unlink_if_present
from highwater.partition.storage.names import MADE_ANEW


class MadeAnew:
    """Of one log directory; used on its owner's thread."""

    def __init__(self, filesystem: FileSystem, path_of: Callable[[Partition], str]) -> None:
        """`path_of` gives the directory of a partition."""
        self._filesystem = filesystem
        self._path_of = path_of
        self._whole: Mapping[Partition, object] = {}
        """What the last complete write of all checkpoints tells of."""
        self._high_watermarks: Mapping[Partition, object] = {}
        """What the last complete write of high watermarks tells of."""
        self._begun: deque[tuple[Mapping[Partition, object], bool]] = deque()
        """Writes that have not ended, in their order; whether they write all checkpoints."""
        self._marks: dict[Partition, object] = {}
        """Marks that exist, each with a token of its own."""

    # -- start and stop -------------------------------------------------------------------------

    def without_others(
        self, partitions: Iterable[Partition], offsets: DirectoryOffsets
    ) -> DirectoryOffsets:
        """The checkpoints without what they tell of logs that have a mark. Raises OSError."""
        self._whole = {
            **offsets.high_watermarks,
            **offsets.log_starts,
            **offsets.recovery_points,
        }
        marked = {each for each in partitions if os.path.exists(self._mark_of(each))}
        if not marked:
            return offsets
        self._marks = {each: object() for each in marked}
        return DirectoryOffsets(
            recovery_points=_without(offsets.recovery_points, marked),
            high_watermarks=_without(offsets.high_watermarks, marked),
            log_starts=_without(offsets.log_starts, marked),
        )

    @property
    def marked(self) -> tuple[Partition, ...]:
        """The logs that have a mark now."""
        return tuple(self._marks)

    def remove_all(self) -> None:
        """Removes all marks: the checkpoints tell of every log as it is. Raises LogDirFailure."""
        for partition in self.marked:
            self._unlink(partition)

    # -- new logs -------------------------------------------------------------------------------

    def created(self, partition: Partition) -> Callable[[], None] | None:
        """Marks a new log if it may need it. Raises LogDirFailure.

        Call what this returns, if anything, when the checkpoints that were taken after this call are written.
        """
        if not self._may_be_named(partition):
            return None
        path = self._mark_of(partition)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
            self._filesystem.close(self._filesystem.open(path, flags, 0o644))
        except OSError as error:
            raise LogDirFailure(path, error) from error
        self._marks[partition] = object()
        return self.unmark(partition)

    def unmark(self, partition: Partition) -> Callable[[], None]:
        """What removes this mark, and not one of a later log of that name. It raises LogDirFailure."""
        token = self._marks[partition]

        def remove() -> None:
            if self._marks.get(partition) is token:
                self._unlink(partition)

        return remove

    # -- writes of the checkpoints --------------------------------------------------------------

    def begins(self, told: Mapping[Partition, object], *, whole: bool = True) -> None:
        """A write of these partitions is queued: of all checkpoints, or of high watermarks only."""
        self._begun.append((told, whole))

    def ended(self) -> None:
        """The oldest one has ended."""
        told, whole = self._begun.popleft()
        self._high_watermarks = told
        if whole:
            self._whole = told

    def _may_be_named(self, partition: Partition) -> bool:
        return (
            partition in self._whole
            or partition in self._high_watermarks
            or any(partition in told for told, _ in self._begun)
        )

    def _mark_of(self, partition: Partition) -> str:
        return os.path.join(self._path_of(partition), MADE_ANEW)

    def _unlink(self, partition: Partition) -> None:
        del self._marks[partition]
        path = self._mark_of(partition)
        try:
            unlink_if_present(self._filesystem, path)  # The log may be deleted, with its directory.
        except OSError as error:
            raise LogDirFailure(path, error) from error


def _without(offsets: Mapping[Partition, int], marked: set[Partition]) -> dict[Partition, int]:
    return {each: offset for each, offset in offsets.items() if each not in marked}
