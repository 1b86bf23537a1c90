"""Loads a shard: its newest snapshot, then the rest of the log, in slices.

The loop serves others between two slices. Loading ends at the log end offset, as in Kafka's
CoordinatorLoaderImpl, because the high watermark lags after an election: everything that a former
leader has acknowledged is below the end, and nothing is appended until loading is done. Records
above the high watermark may still be lost with this leadership, so no answer shows them before
they are committed (`commit_queue`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from highwater.kafka.errors import DecodeError, RecordsError
from highwater.kafka.records.batch import (
    TRANSACTIONAL_BIT,
    RecordBatchView,
    is_control,
    iter_batches,
)
from highwater.kafka.records.control import read_end_marker
from highwater.kafka.records.record import read_records
from highwater.model.transactions import TransactionMarker
from highwater.partition.coordinator.core.values import Producer, ResponseT
from highwater.partition.coordinator.kind import CoordinatorKind, ShardT
from highwater.partition.coordinator.log_port import CoordinatorLog, LogPlace
from highwater.partition.coordinator.records import (
    EncodedRecord,
    RecordCodec,
    RecordT,
    UnknownRecordError,
)
from highwater.partition.coordinator.shard import Shard
from highwater.partition.coordinator.snapshot import (
    Snapshot,
    SnapshotError,
    SnapshotStore,
    decode_snapshot,
)

READ_BYTES: Final = 128 * 1024
"""One slice of the log: about 5 ms of decoding."""

_SNAPSHOT_RECORDS_PER_SLICE: Final = 1_000

_DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Our own batches are not compressed; those that Kafka wrote may be."""


class UnreadableBatchError(Exception):
    """A batch cannot be read; the partition needs a healthy replica."""


class LogCutError(Exception):
    """The log became shorter during loading: this node no longer leads it."""


@dataclass(slots=True, kw_only=True)
class LoadReport:
    """What loading did, for logs and metrics."""

    next_offset: int = 0
    """Everything below is replayed."""
    from_snapshot: int = 0
    """Records that came from the snapshot."""
    from_log: int = 0
    log_bytes: int = 0
    skipped: int = 0
    """Records of versions that this coordinator does not know."""
    snapshot_problem: str | None = None
    """Why an existing snapshot was not used."""


async def load_shard(
    kind: CoordinatorKind[ShardT, RecordT, ResponseT],
    *,
    place: LogPlace,
    log: CoordinatorLog,
    snapshots: SnapshotStore,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> tuple[ShardT, LoadReport]:
    """A shard with everything replayed, not yet activated, and a report.

    Raises UnreadableBatchError, LogCutError, or what reading the log raises.
    """
    report = LoadReport()
    partition = place.partition
    data = await asyncio.to_thread(snapshots.load, place)
    start_offset = log.log_start_offset(partition)
    shard = kind.new_shard()
    replayed = kind.hosted(shard)
    report.next_offset = start_offset
    if data is not None:
        try:
            snapshot = decode_snapshot(data, kind.snapshot_magic)
            _check_log(snapshot, place)
            _check_range(snapshot, start_offset, log.log_end_offset(partition))
            _check_lineage(snapshot, log.epoch_before(partition, snapshot.offset))
            await _replay_snapshot(replayed, snapshot, kind.codec, report, pause)
        except (SnapshotError, DecodeError) as error:
            report = LoadReport(next_offset=start_offset, snapshot_problem=str(error))
            shard = kind.new_shard()
            replayed = kind.hosted(shard)
    while report.next_offset < log.log_end_offset(partition):
        chunk = log.read(partition, report.next_offset, READ_BYTES)
        if not chunk:
            raise LogCutError(f"partition {partition}: nothing at {report.next_offset}")
        try:
            _replay_chunk(replayed, chunk, kind.codec, report)
        except UnreadableBatchError:
            # Records may be intact and yet unknown to us; only a damaged batch is the log's fault.
            log.recheck(partition, report.next_offset)
            raise
        report.log_bytes += len(chunk)
        await pause(0)
    if report.next_offset > log.log_end_offset(partition):
        raise LogCutError(f"partition {partition}: it ends before {report.next_offset}")
    return shard, report


def _check_log(snapshot: Snapshot, place: LogPlace) -> None:
    """Refuse a snapshot of another topic, which had the same name before it was deleted."""
    if (snapshot.topic_id, snapshot.partition) != (place.topic_id, place.partition):
        raise SnapshotError(
            f"it belongs to partition {snapshot.partition} of topic {snapshot.topic_id.hex()}"
        )


def _check_range(snapshot: Snapshot, start_offset: int, end_offset: int) -> None:
    """Refuse a snapshot that ends outside the log: its own log was lost."""
    if not start_offset <= snapshot.offset <= end_offset:
        raise SnapshotError(
            f"offset {snapshot.offset} is outside the log, {start_offset} to {end_offset}"
        )


def _check_lineage(snapshot: Snapshot, epoch: int) -> None:
    """The same epoch at the same offset means the same record, and the same records before it."""
    if epoch != snapshot.last_epoch or epoch < 0:
        raise SnapshotError(
            f"the record before {snapshot.offset} is of leader epoch {epoch}, "
            f"not {snapshot.last_epoch}"
        )


async def _replay_snapshot(
    shard: Shard[RecordT, ResponseT],
    snapshot: Snapshot,
    codec: RecordCodec[RecordT],
    report: LoadReport,
    pause: Callable[[float], Awaitable[None]],
) -> None:
    for producer, encoded in snapshot.records():
        record = _decode(encoded, codec, report)
        if record is not None and producer is not None:
            if codec.transactions is None:
                raise SnapshotError("a record of a transaction")
            record = codec.transactions.pending(record, producer)
        if record is not None:
            shard.replay(record)
        report.from_snapshot += 1
        if report.from_snapshot % _SNAPSHOT_RECORDS_PER_SLICE == 0:
            await pause(0)
    report.next_offset = snapshot.offset


def _replay_chunk(
    shard: Shard[RecordT, ResponseT], chunk: bytes, codec: RecordCodec[RecordT], report: LoadReport
) -> None:
    before = report.next_offset
    for record in _log_records(chunk, codec, report):
        shard.replay(record)
    if report.next_offset == before:
        raise UnreadableBatchError(f"no whole batch at {before}")


def _log_records(
    chunk: bytes, codec: RecordCodec[RecordT], report: LoadReport
) -> Iterator[RecordT]:
    """The records of a chunk from `report.next_offset` on; advances that offset."""
    try:
        for batch in iter_batches(chunk):
            yield from _batch_records(batch, codec, report)
            report.next_offset = max(report.next_offset, batch.last_offset + 1)
    except DecodeError as error:
        raise UnreadableBatchError(f"at offset {report.next_offset}: {error}") from error


def _batch_records(
    batch: RecordBatchView, codec: RecordCodec[RecordT], report: LoadReport
) -> Iterator[RecordT]:
    if not batch.crc_ok():
        raise UnreadableBatchError(f"batch at {batch.base_offset} fails its checksum")
    if batch.last_offset < report.next_offset:
        return
    transactions = codec.transactions
    if is_control(batch.attributes):
        marker = _marker(batch) if transactions is not None else None
        if transactions is not None and marker is not None:
            yield transactions.ended(marker)
        return
    pending = None
    if transactions is not None and batch.attributes & TRANSACTIONAL_BIT:
        producer = Producer(batch.producer_id, batch.header().producer_epoch)
        pending = partial(transactions.pending, producer=producer)
    for record in read_records(batch, _DECOMPRESSED_BYTES_MAX):
        if record.offset < report.next_offset or record.key is None:
            continue
        decoded = _decode(EncodedRecord(record.key, record.value), codec, report)
        if decoded is not None:
            report.from_log += 1
            yield decoded if pending is None else pending(decoded)


def _marker(batch: RecordBatchView) -> TransactionMarker | None:
    """The marker of a control batch; None if it is of another type."""
    try:
        found = read_end_marker(batch.payload, batch.record_count)
    except RecordsError as error:
        raise UnreadableBatchError(f"control batch at {batch.base_offset}: {error}") from error
    if found is None:
        return None
    return TransactionMarker(
        producer_id=batch.producer_id,
        producer_epoch=batch.header().producer_epoch,
        committed=found.committed,
        coordinator_epoch=found.coordinator_epoch,
        transaction_version=0,
    )


def _decode(
    encoded: EncodedRecord, codec: RecordCodec[RecordT], report: LoadReport
) -> RecordT | None:
    """The record, or None if its version or type is not known here."""
    try:
        return codec.decode(encoded.key, encoded.value)
    except UnknownRecordError:
        report.skipped += 1
        return None
