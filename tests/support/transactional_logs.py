"""Transactions written straight into a log, as a leader does."""

from highwater.kafka.records.builder import end_transaction_marker
from highwater.partition.core.transactions import AbortedTransaction
from highwater.partition.storage.log.log import PartitionLog
from tests.support.log_batches import append, make_batch


def write(
    log: PartitionLog,
    producer_id: int,
    *,
    epoch: int = 0,
    records: int = 1,
    value: bytes = b"v",
    timestamp: int = 1_700_000_000_000,
) -> int:
    """Appends one batch of the producer's transaction; its base offset."""
    known = {entry.producer_id: entry for entry in log.producers.states.entries()}.get(producer_id)
    fresh = known is None or known.producer_epoch != epoch
    batch = make_batch(
        timestamps=(timestamp,) * records,
        value=value,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0 if known is None or fresh else known.last_sequence + 1,
        transactional=True,
    )
    return append(log, batch)[0]


def end(
    log: PartitionLog,
    producer_id: int,
    *,
    commit: bool,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    timestamp: int = 1_700_000_000_000,
) -> int:
    """Appends a marker; its offset."""
    marker = end_transaction_marker(
        commit=commit,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=timestamp,
    )
    return append(log, marker)[0]


def indexed(log: PartitionLog) -> list[list[AbortedTransaction]]:
    """The entries of each segment's transaction index."""
    return [list(segment.transactions.entries()) for segment in log.extent.all]
