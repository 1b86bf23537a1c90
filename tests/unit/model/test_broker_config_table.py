"""The table itself; tests of `broker_config` cover its use."""

from highwater.model.broker_config_table import DYNAMIC, READ_ONLY
from highwater.model.config_type import ConfigType

NUMBERS = {ConfigType.INT, ConfigType.LONG, ConfigType.SHORT, ConfigType.DOUBLE}


def test_no_config_is_listed_twice() -> None:
    names = [config.name for config in (*READ_ONLY, *DYNAMIC)]
    assert len(names) == len(set(names))


def test_both_halves_match_their_names() -> None:
    assert all(config.dynamic for config in DYNAMIC)
    assert not any(config.dynamic for config in READ_ONLY)


def test_only_numbers_have_limits_and_defaults_are_within_them() -> None:
    limited = [config for config in DYNAMIC if config.low is not None]
    assert limited
    for config in limited:
        assert config.type in NUMBERS
        assert float(config.default or "nan") >= config.low, config.name
