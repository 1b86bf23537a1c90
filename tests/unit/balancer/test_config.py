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


def test_the_block_is_known_by_its_number_of_ports_or_its_last_one():
    assert load().block == range(9092, 9109)
    assert load(port=19092, ports=3).block == range(19092, 19095)
    assert load(port=19092, port_last=19094).block == range(19092, 19095)
    assert len(load(port=19092, port_last=20092).block) == 1001
    for wrong in ({"port": 19092, "port_last": 9108}, {"port": 19092, "port_last": 20093}):
        with pytest.raises(ConfigError, match=r"port_last \(\d+\) must be port \(19092\) or"):
            load(**wrong)
    with pytest.raises(ConfigError, match="one of them"):
        load(ports=17, port_last=9108)
    with pytest.raises(ConfigError, match="does not fit"):
        load(port_last=9108, gateway_port=65530)
