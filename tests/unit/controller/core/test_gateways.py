"""Chooses the gateway that serves each node, and refuses malformed ones."""

from dataclasses import replace

import pytest

from highwater.controller.core.gateways import (
    assign_gateways,
    host_of,
    malformed_gateway,
    node_without_port,
    overlaps_met,
)
from highwater.model.cluster import GatewayListener, GatewayState
from highwater.model.ids import GatewayId, NodeId
from tests.support.controller_images import node_state


def gateways(*specs: tuple[str, str, str]) -> dict[GatewayId, GatewayState]:
    return {
        GatewayId(name): GatewayState(
            gateway_id=GatewayId(name), host=host, port=9092, single_port=False, rack=rack
        )
        for name, host, rack in specs
    }


def of_nodes(found: dict[GatewayId, GatewayState], **nodes: int) -> dict[GatewayId, GatewayState]:
    """These gateways, some with a node in their process."""
    return {
        name: replace(state, node_id=NodeId(nodes[name])) if name in nodes else state
        for name, state in found.items()
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


def test_a_node_gets_the_gateway_of_its_own_process() -> None:
    nodes = [node_state(1), node_state(2, fenced=True), node_state(3)]
    found = gateways(("a", "host3", ""), ("b", "host1", ""), ("c", "host2", ""), ("d", "host1", ""))
    found = of_nodes(found, a=1, b=2, c=3)
    assert assign_gateways(nodes, found) == {1: "a", 2: "b", 3: "c"}
    del found[GatewayId("b")]
    assert assign_gateways(nodes, found)[NodeId(2)] == "c", "on its host"
    assert assign_gateways(nodes, dict(reversed(found.items()))) == assign_gateways(nodes, found)


def test_of_two_gateways_of_one_node_every_controller_chooses_the_same() -> None:
    found = of_nodes(gateways(("old", "x", ""), ("new", "y", "")), old=1, new=1)
    for order in (found, dict(reversed(found.items()))):
        assert assign_gateways([node_state(1)], order) == {1: "old"}


def test_other_nodes_get_gateways_without_a_node_if_they_are_as_near() -> None:
    nodes = [node_state(n, rack="r") for n in range(1, 21)]
    found = gateways(("a", "x", "r"), ("b", "y", "r"), ("c", "z", ""))
    assert set(assign_gateways(nodes, of_nodes(found, a=99)).values()) == {"b"}
    assert set(assign_gateways(nodes, of_nodes(found, a=99, b=98)).values()) == {"a", "b"}
    far = gateways(("a", "x", ""), ("c", "z", ""))
    assert set(assign_gateways(nodes, of_nodes(far, a=99)).values()) == {"c"}
    near = gateways(("a", "host1", ""), ("c", "z", ""))
    assert assign_gateways([node_state(1)], of_nodes(near, a=99)) == {1: "a"}, "same host first"


def on_ports(**ports: int) -> dict[GatewayId, GatewayState]:
    """Gateways of one host, by their bootstrap ports."""
    made = gateways(*((name, "h", "") for name in ports))
    return {name: replace(one, port=ports[name]) for name, one in made.items()}


def test_a_node_does_not_get_a_gateway_whose_port_for_it_is_in_another_one_s_block() -> None:
    nodes = [node_state(n) for n in range(1, 41)]
    chosen = assign_gateways(nodes, on_ports(a=9000, b=9004))
    assert {chosen[NodeId(n)] for n in range(4, 41)} == {"b"}
    apart = assign_gateways(nodes, on_ports(a=9000, b=9041))
    assert set(apart.values()) == {"a", "b"}
    own = of_nodes(on_ports(a=9000, b=9004), a=7)
    assert assign_gateways([node_state(7)], own) == {7: "b"}, "also its own"


def test_nodes_whose_gateways_share_a_block_keep_them() -> None:
    shared = of_nodes(on_ports(a=9000, b=9000, c=9000), a=1, b=2, c=3)
    nodes = [node_state(n) for n in (1, 2, 3)]
    assert assign_gateways(nodes, shared) == {1: "a", 2: "b", 3: "c"}
    assert overlaps_met([NodeId(3)], shared.values()) == ()


def test_a_node_that_no_gateway_has_a_port_of_its_own_for_gets_one_nevertheless() -> None:
    found = on_ports(a=9000, b=9004)
    found[GatewayId("a")] = replace(found[GatewayId("a")], listeners=(listener("in", port=9304),))
    found[GatewayId("b")] = replace(found[GatewayId("b")], listeners=(listener("in", port=9300),))
    assert assign_gateways([node_state(5)], found)[NodeId(5)] in found


def test_overlaps_count_when_there_is_such_a_node() -> None:
    found = on_ports(a=9000, b=9004)
    assert overlaps_met([NodeId(3), NodeId(1)], found.values()) == ()
    assert overlaps_met([], found.values()) == ()
    (met,) = overlaps_met([NodeId(4), NodeId(1)], found.values())
    assert (met.gateway_id, met.other) == ("a", "b")


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


def test_node_0_has_no_port_in_a_block() -> None:
    blocks = gateways(("b", "x", ""), ("a", "y", ""))
    single = [replace(each, single_port=True) for each in blocks.values()]
    assert node_without_port([NodeId(1), NodeId(2)], blocks.values()) is None
    assert node_without_port([NodeId(0)], single) is None
    assert node_without_port([NodeId(0)], []) is None
    why = node_without_port([NodeId(0), NodeId(1)], [*single, *blocks.values()])
    assert why is not None
    assert "gateway a " in why
