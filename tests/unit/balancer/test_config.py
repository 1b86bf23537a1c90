import pytest

from highwater.balancer.config import BalancerConfig
from highwater.model.errors import ConfigError
from highwater.runtime.settings import load_settings


def load(**overrides):
    return load_settings(BalancerConfig, overrides=overrides)


def test_gateways_have_the_same_ports_unless_told():
    assert load(port=19092).gateway_port_first == 19092
    assert load(port=19092, gateway_port=9092).gateway_port_first == 9092


def test_the_block_has_to_fit():
    assert load(port=65000, ports=536).ports == 536
    for wrong in ({"port": 65000, "ports": 537}, {"gateway_port": 65535, "ports": 2}):
        with pytest.raises(ConfigError, match="does not fit"):
            load(**wrong)
