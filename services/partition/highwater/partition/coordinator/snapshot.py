"""Snapshots of a shard's durable state, so that loading replays only the log after them.

One file per partition, `group-snapshot` for groups, in its log's directory, so that it is deleted
with the log and needs no other disk. Kafka ignores files of such names (its loader looks at
suffixes only). The file is replaced atomically; all integers are big-endian:

    0   4  magic of the kind of coordinator, "HWGS" for groups
    4   2  version, 4
    6   4  CRC-32C of everything from byte 10 on
    10  4  leader epoch of the last record before the offset
    14  8  offset: the snapshot has every record below it and none from it on
    22  8  record count
    30  16 topic id of the log
    46  4  partition of the log
    50  .  the records: producer id (i64) and epoch (i16) of an open transaction, -1 if it is of
           none; key length (i32), key, value length (i32), value, keys and values as in the log;
           none is a tombstone

A snapshot holds only committed records, and only the node that took it has it. The log beside it
changes when another node leads. Epoch and offset show whether the log still begins with the records
of the snapshot: two logs that have the same epoch at one offset are the same up to there (invariant
R2), even if a part was truncated and written again. Version 2 had the epoch in which the snapshot
was taken, which does not show this; version 3 had no producers.

If the file is absent, torn, damaged, of another version or of another log, loading ignores it and
replays the whole log.
"""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final, Protocol

from crc32c import crc32c

from highwater.model.ids import TopicId
from highwater.model.transactions import TransactionMarker
from highwater.partition.coordinator.core.values import Producer
from highwater.partition.coordinator.log_port import LogPlace
from highwater.partition.coordinator.records import EncodedRecord, RecordCodec, RecordT
from highwater.partition.coordinator.shard import Captured
from highwater.partition.storage.names import TEMPORARY_SUFFIX

VERSION: Final = 4
_HEAD = Struct(">4shI")
_BODY = Struct(">iqq16si")
_LENGTH = Struct(">i")
_PRODUCER = Struct(">qh")
_NO_PRODUCER = Producer(-1, -1)


class SnapshotError(ValueError):
    """The bytes are not a whole snapshot of a known version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A decoded snapshot whose records are still encoded, to be decoded a few at a time."""

    last_epoch: int
    """Of the record before `offset`."""
    offset: int
    record_count: int
    topic_id: TopicId
    partition: int
    payload: memoryview

    def records(self) -> Iterator[tuple[Producer | None, EncodedRecord]]:
        """The records in their order, with whose open transaction they belong to.

        Raises SnapshotError if their lengths do not add up.
        """
        position = 0
        for _ in range(self.record_count):
            if position + _PRODUCER.size > len(self.payload):
                raise SnapshotError("a record ends early")
            producer = Producer(*_PRODUCER.unpack_from(self.payload, position))
            key, position = self._field(position + _PRODUCER.size)
            value, position = self._field(position)
            yield None if producer == _NO_PRODUCER else producer, EncodedRecord(key, value)
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


def encode_snapshot(
    state: Captured[RecordT],
    codec: RecordCodec[RecordT],
    magic: bytes,
    *,
    last_epoch: int,
    offset: int,
    place: LogPlace,
) -> bytes:
    """The file's content for `state`, which holds every record of the log below `offset`.

    `last_epoch` is the leader epoch of the record before `offset`.
    """
    count = 0
    parts: list[bytes] = []
    for record in state.records():
        key, value = codec.encode(record)
        assert value is not None, "a snapshot has no tombstones"
        producer = None if codec.transactions is None else codec.transactions.batch_of(record)
        assert not isinstance(producer, TransactionMarker), "a snapshot has no markers"
        parts += (
            _PRODUCER.pack(*(producer or _NO_PRODUCER)),
            _LENGTH.pack(len(key)),
            key,
            _LENGTH.pack(len(value)),
            value,
        )
        count += 1
    head = _BODY.pack(last_epoch, offset, count, place.topic_id, place.partition)
    body = head + b"".join(parts)
    return _HEAD.pack(magic, VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes, magic: bytes) -> Snapshot:
    """The snapshot in `data`; raises SnapshotError if there is none of this magic."""
    if len(data) < _HEAD.size + _BODY.size:
        raise SnapshotError("too short")
    found, version, checksum = _HEAD.unpack_from(data)
    if found != magic or version != VERSION:
        raise SnapshotError("not a snapshot of this version")
    body = memoryview(data)[_HEAD.size :]
    if crc32c(body) != checksum:
        raise SnapshotError("checksum mismatch")
    last_epoch, offset, count, topic_id, partition = _BODY.unpack_from(body)
    return Snapshot(
        last_epoch=last_epoch,
        offset=offset,
        record_count=count,
        topic_id=TopicId(topic_id),
        partition=partition,
        payload=body[_BODY.size :],
    )


class SnapshotStore(Protocol):
    """Where snapshots are kept. Both calls may block and run on a thread."""

    def load(self, place: LogPlace) -> bytes | None:
        """The log's snapshot file, or None."""
        ...

    def save(self, place: LogPlace, data: bytes) -> None:
        """Replace the log's snapshot.

        Raises FileNotFoundError if the log is gone, OSError if the disk fails.
        """
        ...


class FileSnapshotStore:
    """Snapshots as files in the directories of the logs."""

    def __init__(self, file_name: str) -> None:
        """`file_name` is the same in every directory."""
        self._file_name = file_name

    def load(self, place: LogPlace) -> bytes | None:
        """The file's bytes; None if it is absent, too old or unreadable."""
        age_ms_max = place.snapshot_age_ms_max
        try:
            with self._path(place).open("rb") as file:
                written_s = os.fstat(file.fileno()).st_mtime
                if age_ms_max is not None and (time.time() - written_s) * 1000 > age_ms_max:
                    return None
                return file.read()
        except OSError:
            # The log has everything; a snapshot only saves time.
            return None

    def save(self, place: LogPlace, data: bytes) -> None:
        """Write a temporary file, fsync, rename, fsync the directory, which must already exist."""
        path = self._path(place)
        # A unique name, as a slow save from an earlier leadership may still be running.
        handle, name = tempfile.mkstemp(
            prefix=f"{self._file_name}.", suffix=TEMPORARY_SUFFIX, dir=path.parent
        )
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _path(self, place: LogPlace) -> Path:
        return Path(place.directory) / self._file_name
