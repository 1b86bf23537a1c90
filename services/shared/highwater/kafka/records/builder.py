"""Builds record batches: for our own clients, internal topics and tests."""

from collections.abc import Iterable
from struct import Struct

from crc32c import crc32c

from highwater.kafka.errors import EncodeError
from highwater.kafka.primitives import varint, varlong
from highwater.kafka.records.batch import (
    ATTRIBUTES_AT,
    CONTROL_BIT,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    TRANSACTIONAL_BIT,
)
from highwater.kafka.records.compression import Compression, compress

Header = tuple[str, bytes | None]

_MARKER_RECORD = Struct(">bbbbbhhbhib")
"""Varints of one byte each: length, attributes, deltas of time and offset, the key's length; the key's
version and its type; the value's length; its version and the coordinator's epoch; no headers."""
_MARKER_HEAD = (2 * 16, 0, 0, 0, 2 * 4, 0)
_MARKER_VALUE = (2 * 6, 0)

_SMALL_END = 256
_SMALL = tuple(varint(length) for length in range(_SMALL_END))
"""Lengths of most keys, values and records that coordinators write."""

_UP_TO_CRC = Struct(">qiibI")
_BEHIND_CRC = Struct(">hiqqqhii")
"""The two parts of a batch's header (`batch.BATCH_HEADER`): the checksum is over all behind it."""
_SIZE_UP_TO_CRC = ATTRIBUTES_AT - LENGTH_OVERHEAD


def encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[Header] = (),
) -> bytes:
    """Return one record with its length in front."""
    if not headers and key is not None and value is not None:
        # What coordinators write, several times in each transaction.
        key_size, value_size = len(key), len(value)
        body = b"".join(
            (
                b"\0",
                varlong(timestamp_delta) if timestamp_delta else b"\0",
                varint(offset_delta) if offset_delta else b"\0",
                _SMALL[key_size] if key_size < _SMALL_END else varint(key_size),
                key,
                _SMALL[value_size] if value_size < _SMALL_END else varint(value_size),
                value,
                b"\0",
            )
        )
        size = len(body)
        return (_SMALL[size] if size < _SMALL_END else varint(size)) + body
    header_list = list(headers)
    parts = [b"\0", varlong(timestamp_delta), varint(offset_delta)]
    for field in (key, value):
        parts += (b"\x01",) if field is None else (varint(len(field)), field)
    parts.append(varint(len(header_list)))
    for name, content in header_list:
        encoded = name.encode()
        parts += (varint(len(encoded)), encoded)
        parts += (b"\x01",) if content is None else (varint(len(content)), content)
    body = b"".join(parts)
    return varint(len(body)) + body


class RecordBatchBuilder:
    """Collects records and makes one batch of them.

    Append, then `build` once. Timestamps are ms since the epoch and are given with each record;
    the first one becomes the batch's base timestamp. The batch must hold at least one record.
    """

    __slots__ = (
        "_attributes",
        "_base_offset",
        "_base_sequence",
        "_base_timestamp",
        "_compression",
        "_count",
        "_last_offset_delta",
        "_leader_epoch",
        "_log_append_time",
        "_max_timestamp",
        "_producer_epoch",
        "_producer_id",
        "_records",
        "_size",
    )

    def __init__(
        self,
        *,
        compression: int = Compression.NONE,
        base_offset: int = 0,
        leader_epoch: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
        control: bool = False,
        log_append_time_ms: int | None = None,
    ) -> None:
        """Start an empty batch; `log_append_time_ms` sets its timestamp as a broker would."""
        self._compression = compression
        self._base_offset = base_offset
        self._leader_epoch = leader_epoch
        self._producer_id = producer_id
        self._producer_epoch = producer_epoch
        self._base_sequence = base_sequence
        self._attributes = compression
        if transactional:
            self._attributes |= TRANSACTIONAL_BIT
        if control:
            self._attributes |= CONTROL_BIT
        if log_append_time_ms is not None:
            self._attributes |= LOG_APPEND_TIME_BIT
        self._log_append_time = log_append_time_ms
        self._records: list[bytes] = []
        self._size = HEADER_SIZE
        self._count = 0
        self._last_offset_delta = -1
        self._base_timestamp = -1
        self._max_timestamp = -1

    @property
    def record_count(self) -> int:
        """Records appended so far."""
        return self._count

    @property
    def size_uncompressed(self) -> int:
        """Bytes that the batch would take without compression."""
        return self._size

    def append(
        self,
        *,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Iterable[Header] = (),
        offset_delta: int | None = None,
    ) -> int:
        """Add a record and return its offset delta; gaps are allowed, as compaction leaves them."""
        delta = self._last_offset_delta + 1 if offset_delta is None else offset_delta
        if delta <= self._last_offset_delta:
            raise EncodeError(f"offset delta {delta} after {self._last_offset_delta}")
        if not self._records:
            self._base_timestamp = timestamp_ms
        record = encode_record(delta, timestamp_ms - self._base_timestamp, key, value, headers)
        self._records.append(record)
        self._size += len(record)
        self._count += 1
        self._last_offset_delta = delta
        self._max_timestamp = max(self._max_timestamp, timestamp_ms)
        return delta

    def build(self) -> bytes:
        """Return the finished batch with its CRC."""
        if not self._records:
            raise EncodeError("a batch holds at least one record")
        payload = b"".join(self._records)
        if self._compression:
            payload = compress(self._compression, payload)
        stamped = self._log_append_time
        behind = (
            _BEHIND_CRC.pack(
                self._attributes,
                self._last_offset_delta,
                self._base_timestamp,
                self._max_timestamp if stamped is None else stamped,
                self._producer_id,
                self._producer_epoch,
                self._base_sequence,
                self._count,
            )
            + payload
        )
        return _with_checksum(self._base_offset, self._leader_epoch, behind)


def end_transaction_marker(
    *,
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """Return the control batch that ends a transaction (Kafka's `EndTransactionMarker`, v0)."""
    # Not by way of a builder: every transaction writes one for each of its partitions.
    payload = _MARKER_RECORD.pack(*_MARKER_HEAD, commit, *_MARKER_VALUE, coordinator_epoch, 0)
    behind = (
        _BEHIND_CRC.pack(
            TRANSACTIONAL_BIT | CONTROL_BIT, 0, timestamp_ms, timestamp_ms, producer_id,
            producer_epoch, -1, 1,
        )
        + payload
    )  # fmt: skip
    return _with_checksum(base_offset, leader_epoch, behind)


def _with_checksum(base_offset: int, leader_epoch: int, behind: bytes) -> bytes:
    """The whole batch of all that is behind its checksum."""
    size = _SIZE_UP_TO_CRC + len(behind)
    return _UP_TO_CRC.pack(base_offset, size, leader_epoch, MAGIC, crc32c(behind)) + behind
