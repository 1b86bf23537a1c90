"""The settings of groups, beside the configs that groups have themselves."""

from highwater.model.broker_config import BROKER_CONFIGS
from highwater.model.group_broker_config_table import GROUP_COORDINATION
from highwater.model.group_config_table import GROUP_CONFIGS


def test_none_may_be_changed_while_brokers_run() -> None:
    for name, _, default, _ in GROUP_COORDINATION:
        assert not BROKER_CONFIGS[name].dynamic
        assert BROKER_CONFIGS[name].default == default


def test_defaults_and_bounds_of_groups_own_configs() -> None:
    for config in GROUP_CONFIGS.values():
        assert BROKER_CONFIGS[config.broker_config].default == str(config.default)
        assert BROKER_CONFIGS[config.low_config].default == str(config.low)
        assert BROKER_CONFIGS[config.high_config].default == str(config.high)
