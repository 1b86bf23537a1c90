from highwater.gateway.routing.brokers import (
    broker_of,
    controller_among,
    live_brokers,
    registered_brokers,
)
from highwater.model.cluster import GatewayState
from highwater.model.ids import GatewayId, NodeId
from tests.unit.gateway.handlers.fakes import GATEWAY, image_of, node


def test_each_node_has_the_port_of_its_gateway():
    brokers = live_brokers(image_of())
    assert [(b.node_id, b.host, b.port, b.rack) for b in brokers] == [
        (1, "10.1.1.1", 9093, "rack-1"),
        (2, "10.1.1.1", 9094, "rack-2"),
        (3, "10.1.1.1", 9095, "rack-3"),
    ]


def test_the_controller_says_which_gateway_serves_a_node():
    second = GatewayState(
        gateway_id=GatewayId("gateway-2"), host="10.1.1.2", port=19092, single_port=False
    )
    image = image_of()
    image = image_of(
        gateways={**image.gateways, second.gateway_id: second},
        node_gateways={NodeId(1): GATEWAY, NodeId(2): second.gateway_id, NodeId(3): GATEWAY},
    )
    assert [(b.host, b.port) for b in live_brokers(image)] == [
        ("10.1.1.1", 9093),
        ("10.1.1.2", 19094),
        ("10.1.1.1", 9095),
    ]


def test_a_broker_of_one_node_has_one_port():
    gateway = GatewayState(gateway_id=GATEWAY, host="127.0.0.1", port=9092, single_port=True)
    image = image_of(nodes=[node(1)], gateways={GATEWAY: gateway})
    broker = broker_of(image, NodeId(1))
    assert broker is not None
    assert (broker.host, broker.port) == ("127.0.0.1", 9092)


def test_a_fenced_node_is_registered_and_not_live():
    image = image_of(nodes=[node(1, fenced=True), node(2)])
    assert [(b.node_id, b.fenced) for b in registered_brokers(image)] == [(1, True), (2, False)]
    assert [b.node_id for b in live_brokers(image)] == [2]


def test_a_node_without_gateway_cannot_be_reached():
    image = image_of(node_gateways={NodeId(1): GATEWAY, NodeId(2): GatewayId("gone")})
    assert [b.node_id for b in live_brokers(image)] == [1]
    assert broker_of(image, NodeId(2)) is None
    assert broker_of(image, NodeId(3)) is None
    assert broker_of(image, NodeId(9)) is None


def test_the_controller_is_the_first_live_broker():
    alive = live_brokers(image_of(nodes=[node(1, fenced=True), node(2), node(3)]))
    assert controller_among(alive) == 2
    dead = live_brokers(image_of(nodes=[node(2, fenced=True), node(3, fenced=True)]))
    assert controller_among(dead) == -1
