"""The record batches of a cluster's logs: an entry of a simulated log has the number of one.

So the replicas, which compare entries, know nothing of what is in them. A batch is one record; its
bytes are Kafka's, without offset and leader epoch, which the entry's place tells.
"""

from __future__ import annotations

from functools import lru_cache

from highwater.kafka.primitives import Buffer
from highwater.kafka.records.batch import (
    BATCH_HEADER,
    CONTROL_BIT,
    HEADER_SIZE,
    TRANSACTIONAL_BIT,
    set_base_offset_and_epoch,
)
from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.kafka.records.control import EndMarker, read_end_marker


class Batches:
    """Of all logs of one cluster, as long as it runs."""

    def __init__(self) -> None:
        self._batches: list[bytes] = []
        self._numbers: dict[bytes, int] = {}

    def __getitem__(self, value: int) -> bytes:
        return self._batches[value]

    def add(self, data: Buffer) -> int:
        """The number of a batch, wherever it is in a log; a new one if it was in none."""
        unplaced = bytearray(data)
        set_base_offset_and_epoch(unplaced, 0, 0, 0)
        batch = bytes(unplaced)
        number = self._numbers.setdefault(batch, len(self._batches))
        if number == len(self._batches):
            self._batches.append(batch)
        return number

    def placed(self, value: int, offset: int, leader_epoch: int) -> bytearray:
        """The batch as it is in a log."""
        data = bytearray(self._batches[value])
        set_base_offset_and_epoch(data, 0, offset, leader_epoch)
        return data


def transactional_batch(
    producer_id: int, producer_epoch: int, sequence: int, content: bytes, timestamp_ms: int
) -> bytes:
    """A client's record in a transaction."""
    builder = RecordBatchBuilder(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        transactional=True,
    )
    builder.append(key=None, value=content, timestamp_ms=timestamp_ms)
    return bytes(builder.build())


@lru_cache(maxsize=4096)
def header_of(data: bytes) -> tuple[int, ...]:
    """The header's fields, in their order."""
    return BATCH_HEADER.unpack_from(data)


@lru_cache(maxsize=4096)
def marker_of(data: bytes) -> EndMarker | None:
    """What a control batch says; None for other batches."""
    header = header_of(data)
    if not header[5] & CONTROL_BIT:
        return None
    return read_end_marker(memoryview(data)[HEADER_SIZE:], header[12])


def producer_of(data: bytes) -> int:
    """Whose transaction the batch is in or ends; -1 if it is of none."""
    header = header_of(data)
    return header[9] if header[5] & TRANSACTIONAL_BIT else -1
