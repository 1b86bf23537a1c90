"""Settings of transaction coordination, with Kafka's defaults where Kafka has the setting."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """Limits and delays of the transactions of one node; brackets hold Kafka's setting."""

    timeout_ms_max: int = 900_000
    """[transaction.max.timeout.ms]"""
    abort_check_ms: int = 10_000
    """[transaction.abort.timed.out.transaction.cleanup.interval.ms]"""
    id_expiration_ms: int = 7 * 24 * 3_600_000
    """[transactional.id.expiration.ms]"""
    id_expiration_check_ms: int = 3_600_000
    """[transaction.remove.expired.transaction.cleanup.interval.ms]"""
    ids_max: int = 200_000
    """Transactional ids per shard, so that made-up ones cannot fill the memory."""
    partitions_bytes_max: int = 900_000
    """The partitions of one transaction, as its record has them: a record must fit into one batch
    of the topic [max.message.bytes]."""
    ids_per_slice: int = 1_000
    """Transactional ids that one slice of a check looks at, so that it never blocks the loop."""
