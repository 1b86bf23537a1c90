from highwater.partition.groups.core.config import GroupConfig


def test_defaults_are_kafkas_where_kafka_has_the_setting():
    config = GroupConfig()
    assert config.session_timeout_ms_min == 6_000
    assert config.session_timeout_ms_max == 30 * 60_000
    assert config.initial_rebalance_delay_ms == 3_000
    assert config.offset_metadata_bytes_max == 4_096
    assert config.offsets_retention_ms == 10_080 * 60_000
    assert config.offsets_retention_check_ms == 600_000


def test_everything_is_limited():
    config = GroupConfig()
    limits = [name for name in config.__slots__ if name.endswith("_max")]
    assert len(limits) >= 7
    assert all(0 < getattr(config, name) < 2**31 for name in limits)
