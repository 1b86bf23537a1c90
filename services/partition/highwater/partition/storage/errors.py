"""Errors of the storage layer, divided by what the owner of a partition can do about them."""


class StorageError(Exception):
    """Anything that goes wrong between a partition and its files."""


class LogDirFailure(StorageError):
    """The operating system refused I/O: the whole log directory is to be taken offline.

    Its partitions are unusable until the directory is opened again, because a failed write or
    fsync leaves unknown what is on disk (a second fsync would report success).
    """

    def __init__(self, path: str, cause: OSError) -> None:
        """Keep the file or directory on which I/O failed, and the operating system's reason."""
        super().__init__(f"I/O error on {path}: {cause}")
        self.path = path
        self.cause = cause


class OffsetOutOfRange(StorageError):
    """The offset lies before the log start offset or beyond the log end offset."""

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        """Keep the offset that was asked for and the range there is, [start, end]."""
        super().__init__(f"offset {offset} is not in [{log_start_offset}, {log_end_offset}]")
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class CorruptLogError(StorageError):
    """Bytes below the recovery point do not form batches; the replica must not serve them."""


class DamageFoundError(CorruptLogError):
    """Records of a segment are damaged, and it is known which."""

    def __init__(self, why: str, *, file: str, position: int, first: int, end: int = -1) -> None:
        """Keep where it stands in which file, and the offsets that are lost: [first, end).

        `end` is -1 while nobody knows where sound batches go on.
        """
        super().__init__(why)
        self.file = file
        self.position = position
        self.first = first
        self.end = end


class DamagedHeaderError(DamageFoundError):
    """Behind the sound batches of a segment stands what is none, so that the rest cannot be found."""


class DamagedBatchError(DamageFoundError):
    """A batch fails its checksum; those around it can be found."""


class DamagedRecordsError(StorageError):
    """The records at this offset are known to be damaged; those before and after them are not."""


class CorruptIndexError(StorageError):
    """An index contradicts itself or its segment; it can be rebuilt from the segment."""


class CorruptCheckpointError(StorageError):
    """A checkpoint, snapshot or metadata file cannot be read as its format says."""


class UnsupportedFormatError(StorageError):
    """Sound data in a format that is not served here (message formats 0 and 1)."""


class MoveGivenUpError(StorageError):
    """A log does not move to another directory; it stays where it is, and works."""


class LogDirInUseError(StorageError):
    """Another process holds the lock of this log directory."""
