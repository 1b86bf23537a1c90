"""What compaction keeps of a log: the newest record of every key (Kafka's `Cleaner`), pure.

There are two passes. First the dirty part of the log, oldest batch first, fills an `OffsetMap`: key
-> offset of its newest record. Then all batches up to there are rewritten without records that are
older than the map's. Offsets never change: the rest of a batch keeps its first and last offset,
its epoch, its producer and its sequence.

* A record without a value, a tombstone, deletes its key. It stays for delete.retention.ms after
  the first pass that found it, so that consumers in the middle of the log see it (KIP-534). That
  pass writes the end of this time into the header, instead of the base timestamp, and sets bit 6.
* A record without a key is dropped: compacted logs have no such records.
* The header of a producer's newest batch stays even without records, because only it has the
  producer's last sequence. Unlike in Kafka, the last header of every written file stays, too: it
  shows how far the file replaces older ones (`compaction_swap`).
* Records of aborted transactions are dropped, and replace no others. A marker goes when no batch
  of its transaction is left, and delete.retention.ms has passed since the first pass that found that,
  as with tombstones (`cleaned_transactions`). The last batch of a producer may be a marker, which
  alone has its epoch: unlike in Kafka, that one stays whole.

The other modules of `cleaning` use this one.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from highwater.kafka.primitives import Buffer
from highwater.kafka.records.batch import (
    ATTRIBUTES_AT,
    BATCH_HEADER,
    COMPRESSION_MASK,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    BatchHeader,
    RecordBatchView,
    is_control,
    is_log_append_time,
)
from highwater.kafka.records.builder import encode_record
from highwater.kafka.records.compression import compress, decompress
from highwater.kafka.records.record import RawRecord, iter_raw_records
from highwater.partition.storage.cleaning.cleaned_transactions import CleanedTransactions

NO_OFFSET: Final = -1
_DIGEST_BYTES: Final = 16
_CRC: Final = Struct(">I")


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningRules:
    """The time and the limits of one pass."""

    now_ms: int
    """Wall clock."""
    delete_retention_ms: int
    """How long tombstones stay [delete.retention.ms]."""
    decompressed_bytes_max: int = 64 * 1024 * 1024
    """Limit of one decompressed batch; a larger one is an error."""


@dataclass(slots=True, kw_only=True)
class CleaningReport:
    """Totals of a pass, for logs and metrics."""

    records_kept: int = 0
    records_dropped: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


class OffsetMap:
    """Key -> offset of its newest record, for at most `keys_max` keys.

    Keys are kept as 128-bit digests, so that memory does not depend on their length. A collision
    is as unlikely as an unnoticed disk error (Kafka uses MD5).
    """

    def __init__(self, keys_max: int) -> None:
        self._keys_max = keys_max
        self._offsets: dict[bytes, int] = {}
        self.latest = NO_OFFSET
        """Offset of the last record added; the map knows nothing of later ones."""

    def __len__(self) -> int:
        return len(self._offsets)

    def newest(self, key: bytes) -> int:
        """Offset of the key's newest record; -1 if the dirty part has none."""
        return self._offsets.get(_digest(key), NO_OFFSET)

    def add(self, batch: RecordBatchView, rules: CleaningRules) -> bool:
        """Add all records of the log's next batch; if they might not fit, add none (False).

        Raises RecordsError if the batch cannot be read.
        """
        header = batch.header()
        if len(self._offsets) + header.record_count > self._keys_max:
            return False
        for record in _records(batch, header, rules):
            if record.key is not None:
                self._offsets[_digest(record.key)] = header.base_offset + record.offset_delta
        self.latest = batch.last_offset
        return True

    def skip(self, batch: RecordBatchView) -> None:
        """Add none of the log's next batch, which is a marker, or was aborted."""
        self.latest = batch.last_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducers:
    """Of each producer that is remembered, the batch that must stay."""

    last_offsets: Mapping[int, int]
    """Producer id -> last offset of the producer's newest batch."""
    marked_epochs: Mapping[int, int]
    """Producer id -> epoch of producers of which only markers tell anything."""

    def newest_is(self, batch: RecordBatchView) -> bool:
        """Whether nothing but this batch tells what the producer's state is."""
        header = batch.header()
        if self.last_offsets.get(header.producer_id) == batch.last_offset:
            return header.producer_id >= 0
        marked = self.marked_epochs.get(header.producer_id)
        return marked == header.producer_epoch and is_control(header.attributes)


class CleanedBatch(NamedTuple):
    """The rest of a batch; `data` is None if nothing is left."""

    data: Buffer | None
    kept: int
    dropped: int


def clean_batch(
    batch: RecordBatchView,
    offsets: OffsetMap,
    rules: CleaningRules,
    *,
    keep_header: bool,
    discardable: bool = False,
) -> CleanedBatch:
    """Return the batch without records that compaction drops; the same bytes if it drops none.

    `keep_header`: keep the header even without records. `discardable`: the batch's transaction was
    aborted; or it is a marker without a batch before it. Raises RecordsError if the batch cannot be
    read.
    """
    header = batch.header()
    whole = memoryview(batch.buf)[batch.start : batch.end]
    if is_control(header.attributes):
        if not discardable or not header.record_count:
            stays = keep_header or not discardable
            return CleanedBatch(whole if stays else None, header.record_count, 0)
        return _cleaned_marker(header, batch, whole, rules, keep_header=keep_header)
    if discardable:
        dropped = header.record_count
        if not keep_header:
            return CleanedBatch(None, 0, dropped)
        return CleanedBatch(_empty(header) if dropped else whole, 0, dropped)
    if header.base_offset > offsets.latest:
        return CleanedBatch(whole, header.record_count, 0)
    timed = bool(header.attributes & DELETE_HORIZON_BIT)
    tombstones_stay = not timed or rules.now_ms < header.base_timestamp
    records = list(_records(batch, header, rules))
    kept = [
        record
        for record in records
        if _stays(record, header.base_offset + record.offset_delta, offsets, tombstones_stay)
    ]
    dropped = len(records) - len(kept)
    if not kept:
        if not keep_header:
            return CleanedBatch(None, 0, dropped)
        return CleanedBatch(_empty(header) if records else whole, 0, dropped)
    begins_to_wait = not timed and any(record.value is None for record in kept)
    if not dropped and not begins_to_wait:
        return CleanedBatch(whole, len(kept), 0)
    horizon_ms = rules.now_ms + rules.delete_retention_ms if begins_to_wait else None
    return CleanedBatch(_rebuilt(header, kept, horizon_ms), len(kept), dropped)


def _cleaned_marker(
    header: BatchHeader,
    batch: RecordBatchView,
    whole: memoryview,
    rules: CleaningRules,
    *,
    keep_header: bool,
) -> CleanedBatch:
    """A marker without a batch before it: it begins to wait, waits, or goes."""
    if not header.attributes & DELETE_HORIZON_BIT:
        horizon_ms = rules.now_ms + rules.delete_retention_ms
        data = _rebuilt(header, list(_records(batch, header, rules)), horizon_ms)
        return CleanedBatch(data, header.record_count, 0)
    if rules.now_ms < header.base_timestamp or keep_header:
        return CleanedBatch(whole, header.record_count, 0)
    return CleanedBatch(None, 0, header.record_count)


def clean(
    batches: Iterable[RecordBatchView],
    offsets: OffsetMap,
    rules: CleaningRules,
    producers: ActiveProducers,
    report: CleaningReport,
    transactions: CleanedTransactions,
) -> Iterator[Buffer]:
    """Yield the batches of a new file, from those of the segments that it replaces, in order."""
    previous: RecordBatchView | None = None
    for batch in batches:
        if previous is not None:
            yield from _cleaned(previous, offsets, rules, producers, report, transactions)
        previous = batch
    if previous is not None:
        yield from _cleaned(previous, offsets, rules, producers, report, transactions, last=True)


def _cleaned(
    batch: RecordBatchView,
    offsets: OffsetMap,
    rules: CleaningRules,
    producers: ActiveProducers,
    report: CleaningReport,
    transactions: CleanedTransactions,
    *,
    last: bool = False,
) -> Iterator[Buffer]:
    result = clean_batch(
        batch,
        offsets,
        rules,
        keep_header=last or producers.newest_is(batch),
        discardable=transactions.read(batch),
    )
    report.records_kept += result.kept
    report.records_dropped += result.dropped
    report.bytes_read += batch.size
    if result.data is not None:
        report.bytes_written += len(result.data)
        yield result.data


def _stays(record: RawRecord, offset: int, offsets: OffsetMap, tombstones_stay: bool) -> bool:
    if offset > offsets.latest:
        return True
    if record.key is None or offset < offsets.newest(record.key):
        return False
    return record.value is not None or tombstones_stay


def _records(
    batch: RecordBatchView, header: BatchHeader, rules: CleaningRules
) -> Iterator[RawRecord]:
    payload = decompress(batch.compression, batch.payload, rules.decompressed_bytes_max)
    return iter_raw_records(payload, header.record_count)


def _rebuilt(header: BatchHeader, records: list[RawRecord], horizon_ms: int | None) -> bytes:
    """Encode the batch with fewer records, or with the deletion time of its tombstones."""
    base = header.base_timestamp if horizon_ms is None else horizon_ms
    shift = header.base_timestamp - base
    payload = b"".join(
        encode_record(r.offset_delta, r.timestamp_delta + shift, r.key, r.value, r.headers)
        for r in records
    )
    newest = header.base_timestamp + max(record.timestamp_delta for record in records)
    stamped = is_log_append_time(header.attributes)
    return _sealed(
        header._replace(
            attributes=header.attributes | (0 if horizon_ms is None else DELETE_HORIZON_BIT),
            base_timestamp=base,
            max_timestamp=header.max_timestamp if stamped else newest,
            record_count=len(records),
        ),
        compress(header.attributes & COMPRESSION_MASK, payload),
    )


def _empty(header: BatchHeader) -> bytes:
    """A header with only the batch's offsets and producer (Kafka's `writeEmptyHeader`)."""
    return _sealed(
        header._replace(
            attributes=header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_BIT),
            base_timestamp=header.max_timestamp,
            record_count=0,
        ),
        b"",
    )


def _sealed(header: BatchHeader, payload: bytes) -> bytes:
    length = HEADER_SIZE + len(payload) - LENGTH_OVERHEAD
    batch = bytearray(BATCH_HEADER.pack(*header._replace(batch_length=length, crc=0))) + payload
    _CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))
    return bytes(batch)


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()
