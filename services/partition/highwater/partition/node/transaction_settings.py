"""Translates a node's settings into its transaction coordinator's configuration."""

from highwater.partition.config import PartitionConfig
from highwater.partition.transactions.core.config import TransactionConfig


def transaction_config(config: PartitionConfig) -> TransactionConfig:
    """The settings that Kafka has as well; the coordinator's other limits keep their defaults."""
    return TransactionConfig(
        timeout_ms_max=config.transaction_max_timeout_ms,
        abort_check_ms=config.transaction_abort_check_interval_ms,
        id_expiration_ms=config.transactional_id_expiration_ms,
        id_expiration_check_ms=config.transactional_id_expiration_check_interval_ms,
    )
