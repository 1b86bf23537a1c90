"""Logs of keyed records for tests of compaction: written, cleaned in this process, read back."""

from __future__ import annotations

import shutil
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path

from highwater.kafka.records.batch import RecordBatchView, iter_batches
from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.kafka.records.record import Record, read_records
from highwater.partition.storage.cleaning.job import CleaningJob, GroupWritten, Report
from highwater.partition.storage.cleaning.rewrite import LogCleaner
from highwater.partition.storage.log.log import PartitionLog
from tests.support.log_batches import slice_bytes

RECORD_BYTES_MAX = 1 << 20
FORGOTTEN_MS = 1 << 50

Pair = tuple[bytes | None, bytes | None]


def keyed_batch(
    pairs: Iterable[Pair],
    *,
    timestamp_ms: int = 1_700_000_000_000,
    compression: int = 0,
    producer_id: int = -1,
    base_sequence: int = -1,
) -> bytearray:
    """One batch of (key, value) records."""
    builder = RecordBatchBuilder(
        base_offset=0,
        leader_epoch=0,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=base_sequence,
        compression=compression,
    )
    for key, value in pairs:
        builder.append(key=key, value=value, timestamp_ms=timestamp_ms)
    return bytearray(builder.build())


def job_of(
    log: PartitionLog,
    *,
    now_ms: int = 1_700_000_000_000,
    delete_retention_ms: int = FORGOTTEN_MS,
    keys_max: int = 10_000,
    segment_bytes: int = 1 << 20,
) -> CleaningJob:
    """A cleaning job for all closed segments."""
    spans = log.cleaning.spans()
    return CleaningJob(
        directory=log.directory,
        segments=[(span.base_offset, span.next_offset, span.size) for span in spans],
        index_bytes=[span.index_bytes for span in spans],
        first_dirty=log.cleaning.first_dirty,
        now_ms=now_ms,
        delete_retention_ms=delete_retention_ms,
        keys_max=keys_max,
        segment_bytes=segment_bytes,
        index_bytes_max=log.config.segment_index_bytes,
        index_interval=log.config.index_interval_bytes,
        producers=log.producers.states.last_offsets(),
        marked_producers=log.producers.states.marked_epochs(),
        aborted=b64encode(log.transactions.packed()).decode(),
    )


def rewritten(job: CleaningJob) -> tuple[list[GroupWritten], int]:
    """Runs the pass in this process; returns the groups of `.cleaned` files and the next dirty offset."""
    told: list[Report] = []
    done = LogCleaner(job, told.append).run()
    return [report for report in told if isinstance(report, GroupWritten)], done.next_dirty


def batches_in(log: PartitionLog, max_bytes: int = 1 << 20) -> list[RecordBatchView]:
    """Every batch that a consumer sees from the log's start on."""
    found: list[RecordBatchView] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = slice_bytes(log.reader.read(offset, max_bytes, end_offset=log.log_end_offset))
        batches = list(iter_batches(data))
        assert batches, f"nothing at {offset} of {log.log_end_offset}"
        assert all(batch.crc_ok() for batch in batches)
        assert batches[0].last_offset >= offset
        found += batches
        offset = batches[-1].last_offset + 1
    return found


def records_in(log: PartitionLog) -> list[Record]:
    """Every record that a consumer sees."""
    return [r for batch in batches_in(log) for r in read_records(batch, RECORD_BYTES_MAX)]


def newest(records: Iterable[Record]) -> dict[bytes | None, Record]:
    """The last record of each key that has a value."""
    found = {record.key: record for record in records}
    return {key: record for key, record in found.items() if record.value is not None}


def copied(directory: Path | str, target: Path) -> Path:
    """Copies the files as a crash would leave them now."""
    shutil.copytree(directory, target)
    return target
