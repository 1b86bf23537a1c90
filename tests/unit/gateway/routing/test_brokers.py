from dataclasses import replace

from highwater.gateway.routing.brokers import (
    Entrance,
    FencedNode,
    advertised_listeners,
    broker_of,
    brokers_for,
    controller_among,
    live_brokers,
    no_leader_code,
    nodes_without,
    registered_brokers,
)
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import GatewayState
from highwater.model.ids import DEFAULT_INSTANCE, GatewayId, InstanceId, NodeId
from highwater.model.instances import InstanceListener, InstanceState
from highwater.model.listener_names import DEFAULT_LISTENER
from tests.unit.gateway.handlers.images import (
    GATEWAY,
    image_of,
    node,
    with_listener,
)


def test_each_node_has_the_port_of_its_gateway():
    brokers = live_brokers(image_of(), Entrance())
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
    assert [(b.host, b.port) for b in live_brokers(image, Entrance())] == [
        ("10.1.1.1", 9093),
        ("10.1.1.2", 19094),
        ("10.1.1.1", 9095),
    ]


def test_a_broker_of_one_node_has_one_port():
    gateway = GatewayState(gateway_id=GATEWAY, host="127.0.0.1", port=9092, single_port=True)
    image = image_of(nodes=[node(1)], gateways={GATEWAY: gateway})
    broker = broker_of(image, NodeId(1), Entrance())
    assert broker is not None
    assert (broker.host, broker.port) == ("127.0.0.1", 9092)


def test_a_fenced_node_is_registered_and_not_live():
    image = image_of(nodes=[node(1, fenced=True), node(2)])
    assert [(b.node_id, b.fenced) for b in registered_brokers(image, Entrance())] == [
        (1, True),
        (2, False),
    ]
    assert [b.node_id for b in live_brokers(image, Entrance())] == [2]


def test_a_node_without_gateway_cannot_be_reached():
    image = image_of(node_gateways={NodeId(1): GATEWAY, NodeId(2): GatewayId("gone")})
    assert [b.node_id for b in live_brokers(image, Entrance())] == [1]
    assert broker_of(image, NodeId(2), Entrance()) is None
    assert broker_of(image, NodeId(3), Entrance()) is None
    assert broker_of(image, NodeId(9), Entrance()) is None


def test_the_controller_is_the_first_live_broker():
    image = image_of(nodes=[node(1, fenced=True), node(2), node(3)])
    alive = live_brokers(image, Entrance())
    assert controller_among(alive) == 2
    image = image_of(nodes=[node(2, fenced=True), node(3, fenced=True)])
    dead = live_brokers(image, Entrance())
    assert controller_among(dead) == -1


def test_each_listener_has_addresses_of_its_own():
    image = with_listener(image_of(), "internal", "gw-1", 29092)
    assert [(b.host, b.port) for b in live_brokers(image, Entrance("internal"))] == [
        ("gw-1", 29093),
        ("gw-1", 29094),
        ("gw-1", 29095),
    ]
    assert live_brokers(image, Entrance()) == live_brokers(image_of(), Entrance())
    assert advertised_listeners(image, NodeId(2), DEFAULT_INSTANCE) == (
        "PLAINTEXT://10.1.1.1:9094,INTERNAL://gw-1:29094"
    )
    assert advertised_listeners(image_of(nodes=[node(1)]), NodeId(9), DEFAULT_INSTANCE) == ""


def test_a_gateway_without_the_listener_hides_its_nodes_from_the_listeners_clients():
    nodes = [node(1), node(2), node(3), node(4, fenced=True)]
    image = with_listener(image_of(nodes=nodes), "internal", "gw-1", 29092)
    other = GatewayState(gateway_id=GatewayId("b"), host="b", port=9092, single_port=False)
    image = replace(
        image,
        gateways={**image.gateways, other.gateway_id: other},
        node_gateways={NodeId(1): GATEWAY, NodeId(2): GatewayId("b"), NodeId(4): GatewayId("b")},
    )
    assert [b.node_id for b in registered_brokers(image, Entrance("internal"))] == [1]
    assert [b.node_id for b in brokers_for(image, Entrance("internal"), {}, -1)] == [1]
    assert broker_of(image, NodeId(2), Entrance("internal")) is None
    lacking = nodes_without(image, Entrance("internal"))
    assert lacking == {2}, "node 3 has no gateway, and node 4 is fenced"
    assert nodes_without(image, Entrance()) == set()
    assert no_leader_code(NodeId(2), lacking) == ErrorCode.LISTENER_NOT_FOUND
    assert no_leader_code(NodeId(3), lacking) == ErrorCode.LEADER_NOT_AVAILABLE
    assert live_brokers(image, Entrance("no-such")) == []
    assert brokers_for(image, Entrance("no-such"), {}, -1) == []


def test_an_instance_has_addresses_of_its_own_where_it_has_a_block():
    tenant, deleted = InstanceId("a"), InstanceId("b")
    blocks = (
        InstanceListener(port=20000),
        InstanceListener(
            port=30000, listener="internal", advertised_host="a.example", advertised_port=40000
        ),
    )
    image = replace(
        with_listener(image_of(), "internal", "gw-1", 29092),
        instances={
            tenant: InstanceState(instance=tenant, listeners=blocks),
            deleted: InstanceState(instance=deleted, listeners=blocks, purge_at_ms=1),
        },
    )
    own = Entrance(DEFAULT_LISTENER, tenant)
    assert [(b.host, b.port) for b in live_brokers(image, own)] == [
        ("10.1.1.1", 20001),
        ("10.1.1.1", 20002),
        ("10.1.1.1", 20003),
    ]
    inside = broker_of(image, NodeId(2), Entrance("internal", tenant))
    assert (inside.host, inside.port) == ("a.example", 40002)
    assert advertised_listeners(image, NodeId(1), tenant) == (
        "PLAINTEXT://10.1.1.1:20001,INTERNAL://a.example:40001"
    )
    assert nodes_without(image, own) == set()
    for nobody in (deleted, InstanceId("c")):
        assert live_brokers(image, Entrance(DEFAULT_LISTENER, nobody)) == []
        assert nodes_without(image, Entrance(DEFAULT_LISTENER, nobody)) == {1, 2, 3}
    assert live_brokers(image, Entrance()) == live_brokers(image_of(), Entrance())


def own(number, host):
    """The gateway of a node's process."""
    return GatewayState(
        gateway_id=GatewayId(host), host=host, port=9092, single_port=False, node_id=NodeId(number)
    )


def test_a_fenced_node_keeps_the_address_of_its_own_gateway():
    """The controller names another one when the session of the node's own has ended."""
    other = own(2, "host-2")
    image = image_of(
        nodes=[node(1, fenced=True), node(2)],
        gateways={other.gateway_id: other},
        node_gateways={NodeId(1): other.gateway_id, NodeId(2): other.gateway_id},
    )

    def shown(gateway):
        known = {NodeId(1): FencedNode(image.revision, gateway)}
        return [(b.node_id, b.host) for b in brokers_for(image, Entrance(), known, -1)]

    assert shown(own(1, "host-1")) == [(1, "host-1"), (2, "host-2")]
    assert shown(None) == [(1, "host-2"), (2, "host-2")], "a gateway that has never known it"


def test_if_all_are_fenced_some_address_answers():
    """A gateway without a node is left, or none yet that has registered again."""
    alone = GatewayState(gateway_id=GatewayId("alone"), host="alone", port=9092, single_port=False)
    known = {NodeId(1): FencedNode(5, own(1, "host-1")), NodeId(2): FencedNode(5, own(2, "host-2"))}

    def shown(*gateways):
        serving = gateways[0].gateway_id if gateways else None
        image = image_of(
            nodes=[node(1, fenced=True), node(2, fenced=True)],
            gateways={one.gateway_id: one for one in gateways},
            node_gateways={NodeId(n): serving for n in (1, 2)} if gateways else {},
        )
        return [b.host for b in brokers_for(image, Entrance(), known, -1)]

    assert shown(alone) == ["alone", "alone"]
    assert shown() == ["host-1", "host-2"]
    assert shown(own(2, "host-2"), alone) == ["host-1", "host-2"], "one of them answers"
