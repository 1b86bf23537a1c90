"""Syncs a log on another thread, so that its owner's thread need not wait."""

import os

from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.filesystem import FileSystem, sync_directory
from highwater.partition.storage.log_life import LogLife
from highwater.partition.storage.segment.segment import Segment


class FlushJob:
    """One fsync of all up to `offset`. The owner begins and completes it; any thread runs it.

    `run` uses no field of a log. The segments stay pinned until completion, so that their
    descriptors are not closed or reused meanwhile.
    """

    __slots__ = (
        "_descriptors",
        "_indexes",
        "_directory",
        "_epochs",
        "_filesystem",
        "_life",
        "offset",
        "segments",
        "truncations",
    )

    def __init__(
        self,
        segments: list[Segment],
        offset: int,
        *,
        sealed: int,
        truncations: int,
        directory: str | None,
        filesystem: FileSystem,
        life: LogLife,
        epochs: str | None = None,
    ) -> None:
        """The first `sealed` segments will not grow. Their indexes are synced, too, since recovery
        does not check them. `directory` is given if files were made in it, `epochs` (the leader
        epoch checkpoint) if that has changed; both are then synced.
        """
        self.segments = segments
        self.offset = offset
        self.truncations = truncations
        self._directory = directory
        self._epochs = epochs
        self._filesystem = filesystem
        self._life = life
        for segment in segments:
            segment.pin()
        self._descriptors = [segment.fd for segment in segments]
        self._indexes = [
            file.path for segment in segments[:sealed] for file in segment.index_files()
        ]

    def run(self) -> None:
        """Sync the files. Raises LogDirFailure; a failed sync must never be tried again."""
        path = self.segments[0].file if self.segments else self._directory or ""
        try:
            for segment, fd in zip(self.segments, self._descriptors, strict=True):
                if segment.deleted:
                    continue  # By retention, while the job waited: the file is not needed.
                path = segment.file
                self._filesystem.fdatasync(fd)
            for path in self._indexes:
                self._sync_path(path)
            if self._epochs is not None:
                path = self._epochs
                self._sync_path(path)
            if self._directory is not None:
                path = self._directory
                sync_directory(self._filesystem, path)
        except OSError as error:
            if self._life.excuses(error):
                return
            raise LogDirFailure(path, error) from error

    def _sync_path(self, path: str) -> None:
        try:
            fd = self._filesystem.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            # Retention deleted the segment meanwhile, or it has no index yet; or the log has no
            # records, and so no epochs.
            return
        try:
            self._filesystem.fdatasync(fd)
        finally:
            self._filesystem.close(fd)

    def release(self) -> None:
        """Unpin the segments, on the owner's thread, whether or not `run` succeeded."""
        for segment in self.segments:
            segment.unpin()
        self.segments = []
