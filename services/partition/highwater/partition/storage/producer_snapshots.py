"""Producer snapshots: `<offset>.snapshot`, the producers as they were before that offset.

Kafka's format (`ProducerStateManager.java`, schema `ProducerSnapshot`, version 1), big endian:
int16 version, uint32 CRC-32C of all that follows, int32 count, and an entry for each producer as in
`core.producer_entry`.

What producers are (`ProducerStates.packed`) is gathered on the owner's thread, and put together
and written on another one.
"""

import os
from collections.abc import Sequence
from struct import Struct
from typing import Final

from crc32c import crc32c

from highwater.partition.core.producer_entry import ENTRY_BYTES, newest
from highwater.partition.storage.errors import CorruptCheckpointError, LogDirFailure
from highwater.partition.storage.filesystem import (
    FileSystem,
    read_file,
    replace_file,
    write_all,
)
from highwater.partition.storage.log_life import LogLife
from highwater.partition.storage.names import (
    SNAPSHOT_SUFFIX,
    TEMPORARY_SUFFIX,
    offset_file,
    parse_offset_file,
)

VERSION: Final = 1
KEPT: Final = 5
"""Snapshots of one log: the newest, and some to go back to after a truncation."""
FILE_BYTES_MAX: Final = 256 << 20
"""Five million producers; more cannot have been written here."""

_HEAD: Final = Struct(">hI")
_COUNT: Final = Struct(">i")


def encode(packed: Sequence[bytes]) -> bytes:
    """A snapshot file's bytes, of producers' newest batches: Kafka knows one for each."""
    return encode_history([newest(batches) for batches in packed])


def encode_history(packed: Sequence[bytes]) -> bytes:
    """The same with an entry for every batch that is remembered, a producer's oldest first."""
    entries = b"".join(packed)
    body = _COUNT.pack(len(entries) // ENTRY_BYTES) + entries
    return _HEAD.pack(VERSION, crc32c(body)) + body


def decode(data: bytes) -> bytes:
    """The entries in a snapshot file's bytes. Raises CorruptCheckpointError."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise CorruptCheckpointError("a producer snapshot is too short")
    version, checksum = _HEAD.unpack_from(data)
    body = data[_HEAD.size :]
    if version != VERSION:
        raise CorruptCheckpointError(f"producer snapshot of version {version}")
    if crc32c(body) != checksum:
        raise CorruptCheckpointError("a producer snapshot's checksum does not match")
    (count,) = _COUNT.unpack_from(body)
    entries = body[_COUNT.size :]
    if len(entries) != count * ENTRY_BYTES:
        raise CorruptCheckpointError(f"a producer snapshot announces {count} producers")
    return entries


def snapshot_path(directory: str, offset: int) -> str:
    """Where the snapshot for `offset` lies in a partition's directory."""
    return os.path.join(directory, offset_file(offset, SNAPSHOT_SUFFIX))


def write(filesystem: FileSystem, path: str, packed: Sequence[bytes]) -> None:
    """Writes a snapshot so that it is whole when it has its name.

    A power cut may still damage it; its checksum shows that, and the producers are then rebuilt
    from an older one and the log.
    """
    replace_file(filesystem, path, encode(packed), temporary=path + TEMPORARY_SUFFIX, durable=False)


def read(filesystem: FileSystem, path: str) -> bytes:
    """A snapshot's entries. Raises CorruptCheckpointError, or OSError."""
    try:
        return decode(read_file(filesystem, path, limit=FILE_BYTES_MAX))
    except ValueError as error:
        raise CorruptCheckpointError(str(error)) from error


def offsets(names: Sequence[str]) -> list[int]:
    """The offsets of the snapshots among a directory's file names, ascending."""
    found = (parse_offset_file(name, SNAPSHOT_SUFFIX) for name in names)
    return sorted(offset for offset in found if offset is not None)


class SnapshotJob:
    """One snapshot, to be written on another thread after its roll.

    It keeps the partition's directory open and works relative to that: if the log is deleted
    meanwhile, and one of the same name made, the snapshot still goes where it belongs. If the log
    is cut meanwhile there is no snapshot: it tells of batches that the log may not have.
    """

    __slots__ = (
        "_directory",
        "_directory_fd",
        "_filesystem",
        "_life",
        "_offset",
        "_packed",
        "_truncations",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        offset: int,
        packed: Sequence[bytes],
        *,
        life: LogLife,
    ) -> None:
        """On the owner's thread. Raises OSError."""
        self._filesystem = filesystem
        self._directory = directory
        self._directory_fd = filesystem.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._offset = offset
        self._packed = packed
        self._life = life
        self._truncations = life.truncations

    def run(self) -> None:
        """Writes the snapshot durably and removes all but the newest. Raises LogDirFailure."""
        try:
            if self._life.truncations == self._truncations:
                name = offset_file(self._offset, SNAPSHOT_SUFFIX)
                self._write(name)
                if self._life.truncations != self._truncations:
                    # The owner may have looked for such files before this one had its name.
                    self._remove(name)
            self._prune()
        except OSError as error:
            if self._life.excuses(error):
                return
            raise LogDirFailure(self._directory, error) from error
        finally:
            self._filesystem.close(self._directory_fd)

    def _write(self, name: str) -> None:
        files, directory_fd = self._filesystem, self._directory_fd
        temporary = name + TEMPORARY_SUFFIX
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        fd = files.open(temporary, flags, 0o644, dir_fd=directory_fd)
        try:
            write_all(files, fd, encode(self._packed), 0)
            files.fsync(fd)
        finally:
            files.close(fd)
        files.rename(temporary, name, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
        files.fsync(directory_fd)

    def _prune(self) -> None:
        for offset in offsets(self._filesystem.listdir(self._directory_fd))[:-KEPT]:
            self._remove(offset_file(offset, SNAPSHOT_SUFFIX))

    def _remove(self, name: str) -> None:
        try:
            self._filesystem.unlink(name, dir_fd=self._directory_fd)
        except FileNotFoundError:
            return  # It went with its segment, by retention or truncation, meanwhile.
