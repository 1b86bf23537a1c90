from highwater.partition.transactions.core.config import TransactionConfig


def test_defaults_are_kafkas():
    config = TransactionConfig()
    assert config.timeout_ms_max == 15 * 60_000
    assert config.abort_check_ms == 10_000
    assert config.id_expiration_ms == 7 * 24 * 3_600_000
    assert config.id_expiration_check_ms == 3_600_000
