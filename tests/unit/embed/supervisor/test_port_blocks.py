import socket

import pytest

from highwater.embed.supervisor.port_blocks import gateway_overrides, lay_out
from highwater.embed.up import ports
from highwater.embed.up.ports import free_ports
from highwater.gateway.config import GatewayConfig, ListenerConfig
from highwater.model.errors import PortInUseError, UsageError

HOST, OTHER = "127.0.0.1", "127.0.0.2"


def listeners(default, **further):
    """By name, with ports of 127.0.0.1, or as they are."""
    made = {
        name: one if isinstance(one, ListenerConfig) else ListenerConfig(host=HOST, port=one)
        for name, one in further.items()
    }
    return GatewayConfig(port=default, listeners=made).all_listeners


def ports_of(blocks, name):
    return [gateway[name].port for gateway in blocks.gateways]


def test_every_listener_has_a_block_for_each_gateway():
    first = free_ports(HOST, 24)
    given = listeners(first, internal=first + 12)
    blocks = lay_out(given, nodes=3, gateways=3)
    assert ports_of(blocks, "default") == [first, first + 4, first + 8]
    assert ports_of(blocks, "internal") == [first + 12, first + 16, first + 20]
    assert blocks.ports == set(range(first, first + 24))
    assert blocks.gateways[0] == given


def test_ports_that_clients_are_told_move_too():
    first = free_ports(HOST, 8)
    given = listeners(
        first, internal=ListenerConfig(host=HOST, port=first + 4, advertised_port=500)
    )
    blocks = lay_out(given, nodes=1, gateways=2)
    assert [one["internal"].advertised_port for one in blocks.gateways] == [500, 502]
    assert [one["default"].advertised_port for one in blocks.gateways] == [0, 0]


def test_port_0_means_free_ones_apart_from_all_others(monkeypatch):
    first = free_ports(HOST, 40)
    tries = iter([first, first + 3, first + 12, first + 14, first + 20])
    monkeypatch.setattr(ports.random, "choice", lambda _: next(tries))
    blocks = lay_out(listeners(0, internal=0, third=first), nodes=3, gateways=2)
    assert ports_of(blocks, "third") == [first, first + 4]
    assert ports_of(blocks, "default") == [first + 12, first + 16]
    assert ports_of(blocks, "internal") == [first + 20, first + 24]


def test_a_taken_port_of_any_listener_is_named():
    first = free_ports(HOST, 20)
    with (
        socket.create_server((HOST, first + 15)),
        pytest.raises(PortInUseError, match=f":{first + 15} is already in use"),
    ):
        lay_out(listeners(first, internal=first + 10), nodes=2, gateways=2)


def test_blocks_that_overlap_are_refused():
    first = free_ports(HOST, 12)
    lay_out(listeners(first, internal=first + 6), nodes=2, gateways=2)
    message = (
        "listeners default and internal would have the same ports: each takes 6, "
        f"from {first} and from {first + 5}"
    )
    with pytest.raises(UsageError, match=message):
        lay_out(listeners(first, internal=first + 5), nodes=2, gateways=2)
    elsewhere = ListenerConfig(host=OTHER, port=first)
    lay_out(listeners(first, internal=elsewhere), nodes=2, gateways=2)
    everywhere = ListenerConfig(host="0.0.0.0", port=first + 1)
    with pytest.raises(UsageError, match="would have the same ports"):
        lay_out(listeners(first, internal=everywhere), nodes=2, gateways=2)


def test_blocks_end_with_the_last_port():
    message = "10 nodes of listener internal do not fit into the ports after 65530"
    with pytest.raises(UsageError, match=message):
        lay_out(listeners(9092, internal=65530), nodes=10, gateways=1)
    told = ListenerConfig(host=HOST, port=19092, advertised_port=65530)
    with pytest.raises(UsageError, match=message):
        lay_out(listeners(9092, internal=told), nodes=10, gateways=1)


def test_a_gateway_is_told_only_what_differs():
    first = free_ports(HOST, 12)
    given = listeners(first, internal=first + 4, other=ListenerConfig(host=OTHER, port=first))
    blocks = lay_out(given, nodes=1, gateways=2)
    said = {"listeners.internal.port": first + 4, "drain_s": 1}
    assert gateway_overrides(said, given, blocks.gateways[0]) == said
    told = gateway_overrides(said, given, blocks.gateways[1])
    assert set(told) == {"listeners", "drain_s"}
    assert {name: one["port"] for name, one in told["listeners"].items()} == {
        "internal": first + 6,
        "other": first + 2,
    }


def test_a_gateway_is_told_the_default_listener_s_advertised_port():
    first = free_ports(HOST, 4)
    given = GatewayConfig(port=first, advertised_port=500).all_listeners
    blocks = lay_out(given, nodes=1, gateways=2)
    said = {"advertised_port": "500"}
    assert gateway_overrides(said, given, blocks.gateways[0]) == said
    assert gateway_overrides(said, given, blocks.gateways[1]) == {"advertised_port": 502}


def test_the_ports_of_instances_are_moved_as_far_as_the_gateway_s():
    given = listeners(free_ports(HOST, 4))
    blocks = lay_out(given, nodes=1, gateways=2)
    assert gateway_overrides({}, given, blocks.gateways[0], shift=0) == {}
    assert gateway_overrides({}, given, blocks.gateways[1], shift=2) == {"instance_port_shift": 2}
    said = {"instance_port_shift": "5"}
    assert gateway_overrides(said, given, blocks.gateways[1], shift=2) == {"instance_port_shift": 7}
