"""The gateway's listeners: from a file, the environment and flags, and what is wrong with them."""

import pytest

from highwater.gateway.config import GatewayConfig, ListenerConfig, share_ports
from highwater.model.errors import ConfigError
from highwater.runtime.settings import load_settings, parse_assignments

PROXIED = {"proxy_protocol": True, "proxy_networks": ("10.0.0.5",)}


def load(*assignments, **overrides):
    return load_settings(GatewayConfig, overrides={**parse_assignments(assignments), **overrides})


def test_the_settings_at_the_top_describe_the_default_listener():
    told = {"advertised_host": "a", "advertised_port": 2, **PROXIED}
    config = load(host="h", port=1, **told)
    assert config.all_listeners == {"default": ListenerConfig(host="h", port=1, **told)}


def test_a_file_names_listeners(tmp_path):
    file = tmp_path / "highwater.toml"
    file.write_text(
        "[gateway]\nport = 9092\n[gateway.listeners.Internal]\nhost = '0.0.0.0'\nport = 29092\n"
        "[gateway.listeners.rack_2]\nport = 39092\nadvertised_host = 'r2'\nproxy_protocol = true\n"
        "proxy_networks = ['10.0.0.5']\n"
    )
    config = load_settings(GatewayConfig, config_file=file)
    assert list(config.all_listeners) == ["default", "internal", "rack_2"]
    assert config.listeners == {
        "internal": ListenerConfig(host="0.0.0.0", port=29092),
        "rack_2": ListenerConfig(port=39092, advertised_host="r2", **PROXIED),
    }


def test_the_environment_names_listeners(monkeypatch):
    monkeypatch.setenv("HIGHWATER_GATEWAY_LISTENERS", '{"internal": {"port": 1, "host": "h"}}')
    monkeypatch.setenv("HIGHWATER_GATEWAY_LISTENERS__INTERNAL__PORT", "29092")
    monkeypatch.setenv("HIGHWATER_GATEWAY_LISTENERS__INTERNAL__PROXY_PROTOCOL", "true")
    monkeypatch.setenv("HIGHWATER_GATEWAY_LISTENERS__INTERNAL__PROXY_NETWORKS", '["10.0.0.5"]')
    wanted = ListenerConfig(host="h", port=29092, **PROXIED)
    assert load().listeners == {"internal": wanted}


@pytest.mark.parametrize(
    "flag", ["listeners.internal.port=29092", 'listeners={"internal": {"port": 29092}}']
)
def test_flags_name_listeners(flag):
    assert load(flag).listeners == {"internal": ListenerConfig(port=29092)}


def test_what_clients_are_told():
    everywhere = ListenerConfig(host="0.0.0.0", port=29092)
    assert everywhere.address(29092, "machine") == ("machine", 29092)
    assert ListenerConfig(host="h", port=0).address(4711, "machine") == ("h", 4711)
    mapped = ListenerConfig(host="::", port=9, advertised_host="outside", advertised_port=19)
    assert mapped.address(9, "machine") == ("outside", 19)
    default = load(host="0.0.0.0").all_listeners["default"]
    assert default.address(9092, "machine") == ("0.0.0.0", 9092)


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (["listeners.internal.host=h"], "listeners.internal.port is not set"),
        (["listeners.internal.prot=1"], "listeners.internal.prot is not a setting"),
        (["listeners.internal.port=65536"], "listeners.internal.port: .* less than or equal"),
        (["listeners.internal=1"], "listeners.internal: .* dictionary"),
        (['listeners={"a b": {"port": 1}}'], "'a b' holds a character other than"),
        (["listeners.Default.port=1"], "'Default' is reserved"),
        (["listeners.in.port=1", "listeners.IN.port=2"], "'in' and 'IN' do not differ but in case"),
        (["listeners.in.port=9092"], "listeners default and in have the same bootstrap port 9092"),
        (
            ["listeners.a.port=1", "listeners.b.port=1", "listeners.b.host=0.0.0.0"],
            "listeners a and b have the same bootstrap port 1$",
        ),
    ],
)
def test_mistakes(assignments, message):
    with pytest.raises(ConfigError, match=message):
        load(*assignments)


def test_the_same_block_on_different_addresses():
    config = load("listeners.in.port=9092", "listeners.in.host=127.0.0.2")
    assert {one.port for one in config.all_listeners.values()} == {9092}
    both = load("listeners.in.port=0", port=0)
    assert len(both.all_listeners) == 2, "the system chooses"
    assert share_ports("::", "10.0.0.1")
    assert not share_ports("10.0.0.2", "10.0.0.1")


def test_headers_of_a_balancer_are_believed_from_somewhere():
    """Otherwise whoever reaches the port may say that it comes from any address."""
    for settings in (
        {"proxy_protocol": True},
        {"listeners": {"internal": {"port": 1, "proxy_protocol": True}}},
    ):
        with pytest.raises(ConfigError, match="proxy_protocol takes proxy_networks"):
            load(**settings)
    assert load(proxy_protocol=True, proxy_networks=("0.0.0.0/0", "::/0"))
    assert load(proxy_protocol=True, proxy_networks=())


def test_a_handshake_may_follow_a_header():
    tls = {"cert_file": "/a", "key_file": "/b"}
    assert load(**PROXIED, tls=tls).all_listeners["default"].tls.cert_file == "/a"
