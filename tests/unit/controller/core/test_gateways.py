"""Chooses the gateway that serves each node, and refuses malformed ones."""

from dataclasses import replace

import pytest

from highwater.controller.core.gateways import assign_gateways, host_of, malformed_gateway
from highwater.model.cluster import GatewayListener, GatewayState
from highwater.model.ids import GatewayId
from tests.support.controller_images import node_state


def gateways(*specs: tuple[str, str, str]) -> dict[GatewayId, GatewayState]:
    return {
        GatewayId(name): GatewayState(
            gateway_id=GatewayId(name), host=host, port=9092, single_port=False, rack=rack
        )
        for name, host, rack in specs
    }


def test_the_same_host_wins() -> None:
    nodes = [node_state(1), node_state(2)]
    chosen = assign_gateways(nodes, gateways(("a", "host1", ""), ("b", "host2", "")))
    assert chosen == {1: "a", 2: "b"}


def test_the_same_host_by_any_listener() -> None:
    both = gateways(("a", "outside", ""), ("b", "outside", ""))
    for name, gateway in both.items():
        inside = GatewayListener(name="internal", host=f"host-{name}", port=29092)
        both[name] = replace(gateway, listeners=(inside,))
    nodes = [
        replace(node_state(1), address="host-b:9500"),
        replace(node_state(2), address="host-a:9500"),
    ]
    assert assign_gateways(nodes, both) == {1: "b", 2: "a"}


def test_then_the_same_rack() -> None:
    nodes = [node_state(1, rack="r1"), node_state(2, rack="r2")]
    chosen = assign_gateways(nodes, gateways(("a", "x", "r2"), ("b", "y", "r1")))
    assert chosen == {1: "b", 2: "a"}


def test_a_gateway_that_leaves_moves_only_its_nodes() -> None:
    nodes = [node_state(n) for n in range(1, 41)]
    all_three = assign_gateways(nodes, gateways(("a", "x", ""), ("b", "y", ""), ("c", "z", "")))
    two = assign_gateways(nodes, gateways(("a", "x", ""), ("c", "z", "")))
    assert {n: g for n, g in all_three.items() if g != "b"}.items() <= two.items()
    assert min(list(all_three.values()).count(g) for g in "abc") >= 5, "spread"


def test_no_gateway() -> None:
    assert assign_gateways([node_state(1)], {}) == {}


def test_hosts() -> None:
    assert host_of("[::1]:80") == "::1"
    assert host_of("h:80") == "h"


def listener(name: str, host: str = "h", port: int = 29092) -> GatewayListener:
    return GatewayListener(name=name, host=host, port=port)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"listeners": (listener("internal"), listener("b.2"))}, None),
        ({"gateway_id": ""}, "a gateway needs an id, a host and a port"),
        ({"host": ""}, "a gateway needs an id, a host and a port"),
        ({"port": 65_536}, "a gateway needs an id, a host and a port"),
        ({"listeners": (listener("in", host=""),)}, "listener 'in' needs a host and a port"),
        ({"listeners": (listener("in", port=0),)}, "listener 'in' needs a host and a port"),
        ({"listeners": (listener("In"),)}, "listener 'In' is not in lower case"),
        ({"listeners": (listener(""),)}, "a listener's name is empty"),
        (
            {"listeners": (listener("in"), listener("in"))},
            "listener names 'in' and 'in' do not differ",
        ),
    ],
)
def test_malformed_gateways(changes: dict[str, object], why: str | None) -> None:
    found = malformed_gateway(replace(gateways(("a", "x", ""))[GatewayId("a")], **changes))
    assert found == why if why is None else str(found).startswith(why)
