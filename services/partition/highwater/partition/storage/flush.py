"""Making a log durable without holding up its owner's thread."""

from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.filesystem import FileSystem, sync_directory
from highwater.partition.storage.segment import Segment


class FlushJob:
    """One fsync of everything up to `offset`: begun and completed by the owner, run anywhere.

    `run` touches no field of a log; the segments it syncs stay pinned until completion, so their
    descriptors cannot be closed or reused meanwhile.
    """

    __slots__ = ("_descriptors", "_directory", "_filesystem", "offset", "segments", "truncations")

    def __init__(
        self,
        segments: list[Segment],
        offset: int,
        *,
        truncations: int,
        directory: str | None,
        filesystem: FileSystem,
    ) -> None:
        """`directory` is synced as well if given: files were created in it since the last time."""
        self.segments = segments
        self.offset = offset
        self.truncations = truncations
        self._directory = directory
        self._filesystem = filesystem
        for segment in segments:
            segment.pin()
        self._descriptors = [segment.fd for segment in segments]

    def run(self) -> None:
        """Syncs the files. Raises LogDirFailure; a failed sync must never be tried again."""
        path = self.segments[0].file if self.segments else self._directory or ""
        try:
            for segment, fd in zip(self.segments, self._descriptors, strict=True):
                path = segment.file
                self._filesystem.fdatasync(fd)
            if self._directory is not None:
                path = self._directory
                sync_directory(self._filesystem, path)
        except OSError as error:
            raise LogDirFailure(path, error) from error

    def release(self) -> None:
        """Ends the pins, on the owner's thread, whether or not `run` succeeded."""
        for segment in self.segments:
            segment.unpin()
        self.segments = []
