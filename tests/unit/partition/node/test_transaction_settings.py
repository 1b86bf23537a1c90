from highwater.partition.config import PartitionConfig
from highwater.partition.node.transaction_settings import transaction_config
from highwater.partition.transactions.core.config import TransactionConfig


def test_defaults_are_the_coordinator_s_own() -> None:
    assert transaction_config(PartitionConfig()) == TransactionConfig()


def test_settings_reach_the_coordinator() -> None:
    settings = PartitionConfig(
        transaction_max_timeout_ms=1,
        transaction_abort_check_interval_ms=2,
        transactional_id_expiration_ms=3,
        transactional_id_expiration_check_interval_ms=4,
    )
    assert transaction_config(settings) == TransactionConfig(
        timeout_ms_max=1, abort_check_ms=2, id_expiration_ms=3, id_expiration_check_ms=4
    )
