"""One log directory: its lock, identity, checkpoints, and whether it was closed in order.

    .lock                              locked while a process uses the directory
    meta.properties                    node.id, cluster.id, directory.id (KRaft's version 1)
    .kafka_cleanshutdown               {"version":0,"brokerEpoch":13}: everything was closed
   .highwater_lineage                 whose records are here without a gap (see lineage_file)
    recovery-point-offset-checkpoint   replication-offset-checkpoint   log-start-offset-checkpoint
    cleaner-offset-checkpoint          up to where partitions were compacted
    <topic>-<partition>/               a log          <...>-delete/     one to be removed

A partition is named in checkpoints by its directory: (topic or topic id, partition).
"""

import fcntl
import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from highwater.model.ids import TopicId
from highwater.partition.core.lineage import DirectoryRecord
from highwater.partition.storage import checkpoint
from highwater.partition.storage.directory import lineage_file
from highwater.partition.storage.errors import (
    CorruptCheckpointError,
    LogDirFailure,
    LogDirInUseError,
)
from highwater.partition.storage.filesystem import (
    FileSystem,
    read_file,
    replace_file,
    sync_directory,
    unlink_if_present,
)
from highwater.partition.storage.names import (
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    DELETED_DIRECTORY_SUFFIX,
    HIGH_WATERMARK_CHECKPOINT,
    LOCK,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    TEMPORARY_SUFFIX,
    parse_partition_directory,
    topic_id_text,
)

CLUSTER_METADATA: Final = "__cluster_metadata"
"""Kafka's own metadata log may be beside the partitions; it is not ours."""
SMALL_FILE_MAX: Final = 64 << 10
NO_EPOCH: Final = -1

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryIdentity:
    """The content of `meta.properties`. Unset values are -1 and empty."""

    node_id: int = -1
    cluster_id: str = ""
    directory_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryOffsets:
    """The offset checkpoints of a directory, by partition."""

    recovery_points: Mapping[Partition, int]
    high_watermarks: Mapping[Partition, int]
    log_starts: Mapping[Partition, int]


class LogDirectory:
    """A configured log directory. Lifecycle: `open` -> reads and writes -> `close`."""

    def __init__(self, path: str, filesystem: FileSystem) -> None:
        """`path` need not exist yet."""
        self.path = os.path.abspath(path)
        self.filesystem = filesystem
        self.identity = DirectoryIdentity()
        self.clean = False
        """Whether its last process closed everything in order."""
        self.previous_node_epoch = NO_EPOCH
        """The node epoch of that process; -1 unless `clean`."""
        self._lock_fd = -1

    def open(self) -> None:
        """Creates and locks the directory and reads whether it was closed in order.

        The clean-shutdown file is removed at once: a crash from now on is not clean. Raises
        LogDirInUseError, CorruptCheckpointError, LogDirFailure.
        """
        try:
            os.makedirs(self.path, exist_ok=True)
            self._lock()
            self.identity = self._read_identity()
            self._read_clean_shutdown()
        except OSError as error:
            raise LogDirFailure(self.path, error) from error

    def close(self) -> None:
        """Releases the lock."""
        if self._lock_fd >= 0:
            fd, self._lock_fd = self._lock_fd, -1
            os.close(fd)

    def partitions(self) -> list[Partition]:
        """The partitions that have a directory here. Raises OSError."""
        found: list[Partition] = []
        for entry in os.scandir(self.path):
            if entry.is_dir() and not entry.name.endswith(DELETED_DIRECTORY_SUFFIX):
                partition = parse_partition_directory(entry.name)
                if partition is not None and partition[0] != CLUSTER_METADATA:
                    found.append(partition)
        return sorted(found)

    def deleted_directories(self) -> list[str]:
        """Paths of deleted partitions that are not yet removed. Raises OSError."""
        return [
            entry.path
            for entry in os.scandir(self.path)
            if entry.is_dir() and entry.name.endswith(DELETED_DIRECTORY_SUFFIX)
        ]

    def offsets(self) -> DirectoryOffsets:
        """The three checkpoints. A missing or damaged one counts as empty: recovery then begins
        at 0, which is slow but safe. Raises OSError.
        """
        return DirectoryOffsets(
            recovery_points=self._read_offsets(RECOVERY_POINT_CHECKPOINT),
            high_watermarks=self._read_offsets(HIGH_WATERMARK_CHECKPOINT),
            log_starts=self._read_offsets(LOG_START_CHECKPOINT),
        )

    def cleaned(self) -> dict[Partition, int]:
        """The ends of the cleaned parts of logs, which have gaps. Raises OSError."""
        return self._read_offsets(CLEANER_CHECKPOINT)

    def write_cleaned(self, offsets: Mapping[Partition, int]) -> None:
        """Replaces the cleaner's checkpoint, durably. Raises LogDirFailure. Any thread."""
        self._write_offsets(CLEANER_CHECKPOINT, offsets)

    def write_offsets(self, offsets: DirectoryOffsets) -> None:
        """Replaces the three checkpoints, durably. Raises LogDirFailure. Any thread."""
        for name, values in (
            (RECOVERY_POINT_CHECKPOINT, offsets.recovery_points),
            (LOG_START_CHECKPOINT, offsets.log_starts),
            (HIGH_WATERMARK_CHECKPOINT, offsets.high_watermarks),
        ):
            self._write_offsets(name, values)

    def write_high_watermarks(self, offsets: Mapping[Partition, int]) -> None:
        """Replaces the high watermarks' checkpoint, durably. Raises LogDirFailure. Any thread."""
        self._write_offsets(HIGH_WATERMARK_CHECKPOINT, offsets)

    def _write_offsets(self, name: str, values: Mapping[Partition, int]) -> None:
        path = os.path.join(self.path, name)
        try:
            checkpoint.write_offsets(self.filesystem, path, values, durable=True)
        except OSError as error:
            raise LogDirFailure(path, error) from error

    def write_identity(self, *, node_id: int, cluster_id: str) -> None:
        """Writes `meta.properties`, with a new directory id if there was none."""
        directory_id = self.identity.directory_id or topic_id_text(TopicId(uuid.uuid4().bytes))
        identity = DirectoryIdentity(
            node_id=node_id, cluster_id=cluster_id, directory_id=directory_id
        )
        if identity == self.identity:
            return
        text = (
            f"#\nnode.id={node_id}\ndirectory.id={directory_id}\nversion=1\n"
            f"cluster.id={cluster_id}\n"
        )
        path = os.path.join(self.path, META_PROPERTIES)
        self._replace(path, text)
        self.identity = identity

    def write_clean_shutdown(self, node_epoch: int) -> None:
        """Notes that everything here was closed. The last write before `close`."""
        text = json.dumps({"version": 0, "brokerEpoch": node_epoch}, separators=(",", ":"))
        self._replace(os.path.join(self.path, CLEAN_SHUTDOWN), text)

    def read_lineage(self) -> DirectoryRecord | None:
        """The lineage in the directory; None if there is none. Raises LogDirFailure."""
        path = os.path.join(self.path, lineage_file.LINEAGE_FILE)
        try:
            return lineage_file.decode(read_file(self.filesystem, path, limit=SMALL_FILE_MAX))
        except (FileNotFoundError, ValueError):
            return None
        except OSError as error:
            raise LogDirFailure(path, error) from error

    def write_lineage(self, record: DirectoryRecord, *, durable: bool = True) -> None:
        """Replaces the lineage. Raises LogDirFailure. Any thread."""
        text = lineage_file.encode(record).decode()
        self._replace(os.path.join(self.path, lineage_file.LINEAGE_FILE), text, durable=durable)

    def place(self) -> str:
        """Device and inode of the directory, which no copy of it shares. Empty if unknown."""
        try:
            found = self.filesystem.stat(self.path)
        except OSError:
            return ""
        return f"{found.st_dev}:{found.st_ino}"

    def sync(self) -> None:
        """Makes the names of partitions' directories durable. Any thread."""
        try:
            sync_directory(self.filesystem, self.path)
        except OSError as error:
            raise LogDirFailure(self.path, error) from error

    def _replace(self, path: str, text: str, *, durable: bool = True) -> None:
        try:
            replace_file(
                self.filesystem,
                path,
                text.encode(),
                temporary=path + TEMPORARY_SUFFIX,
                durable=durable,
            )
        except OSError as error:
            raise LogDirFailure(path, error) from error

    def _lock(self) -> None:
        path = os.path.join(self.path, LOCK)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # flock excludes other users in this process; Kafka itself uses lockf.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            os.close(fd)
            raise LogDirInUseError(f"{self.path} is in use by another process") from error
        except OSError:
            os.close(fd)
            raise
        self._lock_fd = fd

    def _read_identity(self) -> DirectoryIdentity:
        path = os.path.join(self.path, META_PROPERTIES)
        try:
            text = read_file(self.filesystem, path, limit=SMALL_FILE_MAX).decode()
        except FileNotFoundError:
            return DirectoryIdentity()
        except ValueError as error:
            raise CorruptCheckpointError(f"{path}: {error}") from error
        values = dict(
            line.partition("=")[::2]
            for line in text.splitlines()
            if line and not line.startswith(("#", "!"))
        )
        try:
            return DirectoryIdentity(
                node_id=int(values.get("node.id", values.get("broker.id", "-1"))),
                cluster_id=values.get("cluster.id", ""),
                directory_id=values.get("directory.id", ""),
            )
        except ValueError as error:
            raise CorruptCheckpointError(f"{path}: {error}") from error

    def _read_clean_shutdown(self) -> None:
        path = os.path.join(self.path, CLEAN_SHUTDOWN)
        try:
            text = read_file(self.filesystem, path, limit=SMALL_FILE_MAX)
        except FileNotFoundError:
            return
        self.clean = True
        try:
            values = json.loads(text)
            self.previous_node_epoch = int(values["brokerEpoch"])
        except (ValueError, TypeError, KeyError):
            # Kafka before 3.6 left an empty file; it still means that the logs were closed.
            self.previous_node_epoch = NO_EPOCH
        unlink_if_present(self.filesystem, path)
        # Its removal must be on disk before any write: a power cut must not bring it back.
        sync_directory(self.filesystem, self.path)

    def _read_offsets(self, name: str) -> dict[Partition, int]:
        try:
            return checkpoint.read_offsets(self.filesystem, os.path.join(self.path, name))
        except CorruptCheckpointError:
            return {}
