"""The peer of a connection."""

from highwater.gateway.routing.client import ClientInfo, Peer
from highwater.gateway.routing.near_nodes import NearNodes
from highwater.gateway.routing.table import InstanceTopics, RoutingTable
from highwater.model.authorization import ANONYMOUS, Requester
from highwater.model.ids import DEFAULT_INSTANCE, NO_TOPIC_ID, NodeId
from tests.support.controller_images import image_of, topic_state


def test_a_client_sees_the_live_table_of_its_instance():
    routing = RoutingTable(lambda _node: None)
    peer = Peer(instance=DEFAULT_INSTANCE, node=NodeId(1), host="192.0.2.1", port=5)
    client = ClientInfo(peer, routing.topics_of(DEFAULT_INSTANCE))
    assert client.instance == DEFAULT_INSTANCE
    assert client.topics.find("orders", NO_TOPIC_ID) is None
    orders = topic_state("orders", [(1,)])
    routing.apply(image_of(topics=[orders]))
    found = client.topics.find("orders", NO_TOPIC_ID)
    assert found is not None
    assert client.topics.find("", orders.topic_id) is found


def test_an_authorizer_sees_an_address_in_its_one_form():
    peer = Peer(instance=DEFAULT_INSTANCE, node=None, host="", port=0)
    client = ClientInfo(peer, InstanceTopics(NearNodes()))
    client.came_from("::ffff:10.0.0.1", 5)
    assert client.requester.host == "10.0.0.1"
    client.came_from("0:0:0:0:0:0:0:1", 5)
    assert client.requester.host == "::1"


def test_an_authorizer_sees_the_address_that_the_client_came_from():
    peer = Peer(instance=DEFAULT_INSTANCE, node=None, host="", port=0)
    client = ClientInfo(peer, InstanceTopics(NearNodes()))
    client.came_from("192.0.2.7", 50_000)
    assert (client.peer.host, client.peer.port) == ("192.0.2.7", 50_000)
    assert client.requester == Requester(ANONYMOUS, DEFAULT_INSTANCE, "192.0.2.7")
