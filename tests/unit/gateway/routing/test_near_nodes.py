"""Which nodes a client sees in its rack, and by which link it fetches (KIP-392)."""

from dataclasses import replace

import pytest

from highwater.gateway.routing.client import ClientInfo, Peer
from highwater.gateway.routing.table import RoutingTable
from highwater.model.cluster import GatewayState
from highwater.model.ids import DEFAULT_INSTANCE, NodeId
from tests.support.controller_images import image_of, node_state, topic_state

LINKS = {1: "link 1", 2: "link 2", 3: "link 3"}


def racks(*, fenced=(), served=(1, 2, 3)):
    """Nodes 1 and 2 in rack a, 3 in rack b, behind one gateway; `orders` is led by 1."""
    nodes = [node_state(n, rack="b" if n == 3 else "a", fenced=n in fenced) for n in (1, 2, 3)]
    gateway = GatewayState(gateway_id="g", host="10.0.0.1", port=9092, single_port=False)
    return replace(
        image_of(nodes, [topic_state("orders", [(1, 2, 3), (3, 1)])]),
        gateways={"g": gateway},
        node_gateways={NodeId(n): "g" for n in served},
    )


@pytest.fixture
def table():
    made = RoutingTable(LINKS.get)
    made.apply(racks())
    return made


def peer(node, listener="default"):
    return Peer(instance=DEFAULT_INSTANCE, node=node, host="", port=0, listener=listener)


def near(table, rack, node=1, **changes):
    return ClientInfo(peer(node, **changes), table.topics_of(DEFAULT_INSTANCE)).near(rack)


def test_live_nodes_of_the_rack(table):
    assert near(table, "a") == (1, 2)
    assert near(table, "b") == (3,)
    assert near(table, "c") == near(table, "") == ()
    table.apply(racks(fenced=(2,)))
    assert near(table, "a") == (1,)


def test_none_for_a_client_that_cannot_choose_a_node_or_does_not_see_it(table):
    assert near(table, "a", node=None) == (), "the bootstrap port stands for no node"
    assert near(table, "a", listener="outside") == ()
    table.apply(racks(served=(1, 3)))
    assert near(table, "a") == (1,)


@pytest.mark.parametrize(
    ("port_of", "rack", "partition", "link"),
    [
        (1, "b", 0, "link 1"),
        (3, "b", 0, "link 3"),
        (2, "b", 0, "link 1"),
        (3, "a", 0, "link 1"),
        (2, "a", 1, "link 3"),
        (1, "a", 1, "link 1"),
        (3, "", 0, "link 1"),
    ],
    ids=["leader", "near", "other rack", "not near", "no replica", "near, too", "no rack"],
)
def test_a_fetch_at_the_port_of_a_follower_that_is_near_goes_there(
    table, port_of, rack, partition, link
):
    routes = table.topic(DEFAULT_INSTANCE, "orders")
    near_nodes = near(table, rack, port_of)
    assert routes.link_for(partition, port_of, near_nodes) == link
