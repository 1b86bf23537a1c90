"""Snapshots of a shard's durable state, so that a start replays only the log behind them.

One file per partition, replaced atomically; all integers big-endian:

    0   4  magic "HWGS"
    4   2  version, 1
    6   4  CRC-32C of everything from byte 10 on
    10  4  leader epoch in which it was taken
    14  8  offset: every record below it is in the snapshot, none from it on
    22  8  record count
    30  .  the records: key length (i32), key, value length (i32), value, keys and values as in
           the log (`records`); a record never is a deletion

A snapshot holds committed records only. Whatever is wrong with the file (absent, torn, another
version, a flipped bit), loading gives None and the whole log is replayed instead.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final, Protocol

from crc32c import crc32c

from highwater.partition.groups.core.durable import DurableState
from highwater.partition.groups.records import EncodedRecord, encode

MAGIC: Final = b"HWGS"
VERSION: Final = 1
_HEAD = Struct(">4shI")
_BODY = Struct(">iqq")
_LENGTH = Struct(">i")


class SnapshotError(ValueError):
    """The bytes are not a whole snapshot of a version that we know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A decoded snapshot; its records are still encoded, to be decoded a few at a time."""

    leader_epoch: int
    offset: int
    record_count: int
    payload: memoryview

    def records(self) -> Iterator[EncodedRecord]:
        """The records in their order; SnapshotError when their lengths do not add up."""
        position = 0
        for _ in range(self.record_count):
            key, position = self._field(position)
            value, position = self._field(position)
            yield EncodedRecord(key, value)
        if position != len(self.payload):
            raise SnapshotError("bytes behind the last record")

    def _field(self, position: int) -> tuple[bytes, int]:
        start = position + _LENGTH.size
        if start > len(self.payload):
            raise SnapshotError("a record ends early")
        (length,) = _LENGTH.unpack_from(self.payload, position)
        end = start + length
        if length < 0 or end > len(self.payload):
            raise SnapshotError("a record ends early")
        return bytes(self.payload[start:end]), end


def encode_snapshot(state: DurableState, leader_epoch: int, offset: int) -> bytes:
    """The file's content for `state`, which holds every record below `offset`."""
    count = 0
    parts: list[bytes] = []
    for record in state.records():
        key, value = encode(record)
        assert value is not None, "a state holds no deletions"
        parts += (_LENGTH.pack(len(key)), key, _LENGTH.pack(len(value)), value)
        count += 1
    body = _BODY.pack(leader_epoch, offset, count) + b"".join(parts)
    return _HEAD.pack(MAGIC, VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> Snapshot:
    """The snapshot in `data`; SnapshotError when it is none."""
    if len(data) < _HEAD.size + _BODY.size:
        raise SnapshotError("too short")
    magic, version, checksum = _HEAD.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise SnapshotError("not a snapshot of this version")
    body = memoryview(data)[_HEAD.size :]
    if crc32c(body) != checksum:
        raise SnapshotError("checksum mismatch")
    leader_epoch, offset, count = _BODY.unpack_from(body)
    return Snapshot(
        leader_epoch=leader_epoch,
        offset=offset,
        record_count=count,
        payload=body[_BODY.size :],
    )


class SnapshotStore(Protocol):
    """Where snapshots are kept. Both calls may block and are made from a thread."""

    def load(self, partition: int) -> bytes | None:
        """The partition's snapshot file, or None."""
        ...

    def save(self, partition: int, data: bytes) -> None:
        """Replace the partition's snapshot; OSError when the disk does not take it."""
        ...


class FileSnapshotStore:
    """Snapshots as files `<partition>.groupsnapshot` in one directory."""

    def __init__(self, directory: Path) -> None:
        """Keep snapshots in `directory`, which is made when first needed."""
        self._directory = directory

    def load(self, partition: int) -> bytes | None:
        """The file's bytes; None when there is none or it cannot be read."""
        try:
            return self._path(partition).read_bytes()
        except OSError:
            # The log has everything; a snapshot only saves time.
            return None

    def save(self, partition: int, data: bytes) -> None:
        """Write beside, flush, rename, flush the directory."""
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._path(partition)
        temporary = path.with_suffix(".tmp")
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        descriptor = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _path(self, partition: int) -> Path:
        return self._directory / f"{partition}.groupsnapshot"
