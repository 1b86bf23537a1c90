"""Chooses the gateway that serves each node."""

from highwater.controller.core.gateways import assign_gateways, host_of
from highwater.model.cluster import GatewayState
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
