"""ReadRange: sends batches of a replica here to a node whose disk has damaged its own copy.

The replica may be leader or follower, but must be in sync in the leader epoch of the request. The
asking node compares the batches with its own log. The checksums are checked here, so that no node
relies on a replica that has lost the same records, and so that this node learns of its own damage.
An empty range, whatever its offsets, asks whether the replica lives and has all of its log.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Final

from crc32c import crc32c

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import LENGTH_OVERHEAD
from highwater.partition.core.repair import refuse_proof, refuse_range
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.storage.errors import (
    CorruptLogError,
    DamagedBatchError,
    DamagedRecordsError,
    LogDirFailure,
    StorageError,
)
from highwater.partition.storage.log.log_slice import LogSlice
from highwater.partition.storage.recovery.recovery import CRC_COVERS_FROM
from highwater.partition.storage.segment.batches import HEADER, HEADER_BYTES

ANSWER_BYTES_MAX: Final = 1 << 20
"""Size of one answer, unless its first batch alone is longer."""

Damaged = Callable[[PartitionReplica, CorruptLogError], bool]


async def read_range(
    replica: PartitionReplica | None,
    *,
    leader_epoch: int,
    offset: int,
    end_offset: int,
    max_bytes: int,
    damaged: Damaged,
    whole: Callable[[PartitionReplica], bool],
) -> tuple[int, bytes]:
    """(Kafka's error code, whole batches from `offset` on, all of them before `end_offset`).

    `damaged` is called for unsound batches of this replica; `whole` returns whether no damage of
    the replica's log is known.
    """
    refused = refusal(replica, leader_epoch)
    if refused or replica is None:
        return refused, b""
    if offset == end_offset:
        return refuse_proof(replica.core, leader_epoch, whole=whole(replica)), b""
    log = replica.log
    if not log.log_start_offset <= offset <= end_offset <= log.log_end_offset:
        return ErrorCode.OFFSET_OUT_OF_RANGE, b""
    try:
        found = log.reader.read(offset, min(max_bytes, ANSWER_BYTES_MAX), end_offset=end_offset)
        if found is None:
            return ErrorCode.OFFSET_OUT_OF_RANGE, b""
        data = await _load(found)
    except DamagedRecordsError:
        return ErrorCode.CORRUPT_MESSAGE, b""
    except CorruptLogError as error:
        damaged(replica, error)
        return ErrorCode.CORRUPT_MESSAGE, b""
    except StorageError as error:
        replica.log_failed(error)
        return ErrorCode.KAFKA_STORAGE_ERROR, b""
    unsound = find_unsound(data, found, log.log_end_offset)
    if unsound is not None:
        damaged(replica, unsound)
        return ErrorCode.CORRUPT_MESSAGE, b""
    # The log may have been truncated, or the replica has left the ISR, during the read.
    return refusal(replica, leader_epoch), data


def refusal(replica: PartitionReplica | None, leader_epoch: int) -> int:
    """Kafka's error code for a replica that cannot vouch for records in this epoch; 0 if it can."""
    if replica is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if replica.failed:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return refuse_range(replica.core, leader_epoch)


async def _load(found: LogSlice) -> bytes:
    """Read the slice's bytes on a thread. Raises LogDirFailure."""
    segment = found.segment
    try:
        segment.pin()
        try:
            return await asyncio.to_thread(_pread, segment.fd, found.length, found.position)
        finally:
            segment.unpin()
    except OSError as error:
        raise LogDirFailure(segment.file, error) from error


def find_unsound(data: bytes, found: LogSlice, log_end_offset: int) -> DamagedBatchError | None:
    """The first batch of the slice whose checksum is wrong, or None."""
    view = memoryview(data)
    at = 0
    while at + HEADER_BYTES <= len(view):
        fields = HEADER.unpack_from(view, at)
        nbytes = fields[1] + LENGTH_OVERHEAD
        if not HEADER_BYTES <= nbytes <= len(view) - at:
            break
        if crc32c(view[at + CRC_COVERS_FROM : at + nbytes]) != fields[4]:
            return DamagedBatchError(
                "the CRC does not match",
                file=found.segment.path,
                position=found.position + at,
                first=fields[0],
                end=min(fields[0] + max(fields[6], 0) + 1, log_end_offset),
            )
        at += nbytes
    return None


def _pread(fd: int, nbytes: int, position: int) -> bytes:
    parts: list[bytes] = []
    while nbytes:
        part = os.pread(fd, nbytes, position)
        if not part:
            break
        parts.append(part)
        nbytes -= len(part)
        position += len(part)
    return b"".join(parts)
