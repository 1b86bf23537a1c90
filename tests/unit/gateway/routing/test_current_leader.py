"""Of a node's and the image's leader, the newer one is returned and remembered."""

from dataclasses import replace

import pytest

from highwater.gateway.routing.brokers import Broker, Entrance
from highwater.gateway.routing.current_leader import current_leader
from highwater.gateway.routing.table import RoutingTable
from highwater.model.ids import DEFAULT_INSTANCE, NodeId
from highwater.model.listener_names import DEFAULT_LISTENER
from tests.unit.gateway.handlers.images import (
    image_of,
    topic,
    topic_id,
    with_listener,
)

ORDERS = topic_id("orders")
EPOCH = 5


@pytest.fixture
def routes():
    table = RoutingTable(lambda node: None)
    table.apply(with_listener(image_of(topic("orders", [1, -1])), "internal", "gw-1", 29092))
    return table.topic(DEFAULT_INSTANCE, "orders")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ((-1, -1), (1, EPOCH)),
        ((2, EPOCH - 1), (1, EPOCH)),
        ((1, EPOCH), (1, EPOCH)),
        ((2, EPOCH + 1), (2, EPOCH + 1)),
    ],
)
@pytest.mark.parametrize(
    ("listener", "host", "port"),
    [(DEFAULT_LISTENER, "10.1.1.1", 9092), ("internal", "gw-1", 29092)],
)
def test_the_newer_leader_is_returned_with_its_address(routes, said, told, listener, host, port):
    found = current_leader(routes, 0, *said, Entrance(listener))
    leader, epoch = told
    broker = Broker(NodeId(leader), host, port + leader, f"rack-{leader}", fenced=False)
    assert found == (leader, epoch, broker)
    assert routes.table.ahead == ({} if epoch == EPOCH else {(ORDERS, 0): epoch})


def test_without_a_leader_nothing_is_returned(routes):
    assert current_leader(routes, 1, -1, -1, Entrance()) is None
    newer = current_leader(routes, 0, -1, EPOCH + 1, Entrance())
    assert newer is None, "a newer epoch, which nobody leads"
    assert routes.table.ahead == {}
    assert current_leader(routes, 2, 1, 9, Entrance()) is None, "no such partition"


def test_a_leader_that_no_gateway_serves_has_no_address(routes):
    table = routes.table
    table.apply(replace(table.image, node_gateways={}))
    assert current_leader(routes, 0, -1, -1, Entrance()) == (1, EPOCH, None)


def test_a_leader_without_the_clients_listener_has_no_address(routes):
    assert current_leader(routes, 0, -1, -1, Entrance("no-such")) == (1, EPOCH, None)
