"""The peer of a connection."""

from highwater.gateway.routing.client import ClientInfo, Peer
from highwater.gateway.routing.table import RoutingTable
from highwater.model.authorization import ANONYMOUS, Requester
from highwater.model.ids import DEFAULT_INSTANCE, NodeId
from tests.support.controller_images import image_of, topic_state


def test_a_client_sees_the_live_table_of_its_instance():
    routing = RoutingTable(lambda _node: None)
    peer = Peer(instance=DEFAULT_INSTANCE, node=NodeId(1), host="192.0.2.1", port=5)
    client = ClientInfo(peer, routing.topics_of(DEFAULT_INSTANCE))
    assert client.instance == DEFAULT_INSTANCE
    assert b"orders" not in client.topics
    routing.apply(image_of(topics=[topic_state("orders", [(1,)])]))
    assert b"orders" in client.topics


def test_an_authorizer_sees_the_address_that_the_client_came_from():
    peer = Peer(instance=DEFAULT_INSTANCE, node=None, host="", port=0)
    client = ClientInfo(peer, {})
    client.came_from("192.0.2.7", 50_000)
    assert (client.peer.host, client.peer.port) == ("192.0.2.7", 50_000)
    assert client.requester == Requester(ANONYMOUS, DEFAULT_INSTANCE, "192.0.2.7")
