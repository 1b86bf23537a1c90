"""The brokers that clients see: each is a partition node with an address on some gateway."""

from collections.abc import Mapping
from typing import NamedTuple

from highwater.model.cluster import ClusterImage, NodeState
from highwater.model.ids import NO_NODE, NodeId


class Broker(NamedTuple):
    """A node with the address that clients reach it by."""

    node_id: NodeId
    host: str
    port: int
    rack: str
    fenced: bool


def registered_brokers(image: ClusterImage) -> list[Broker]:
    """All nodes that some gateway serves, fenced or not, by id."""
    brokers = (_broker(image, image.nodes[node_id]) for node_id in sorted(image.nodes))
    return [broker for broker in brokers if broker is not None]


def live_brokers(image: ClusterImage) -> list[Broker]:
    """The registered brokers that are not fenced: those that clients get to know.

    A fenced node leads nothing. Its gateway still serves its address for clients that know it
    (Kafka: `MetadataCache.getAliveBrokerNodes`).
    """
    return [broker for broker in registered_brokers(image) if not broker.fenced]


def brokers_for(
    image: ClusterImage, fenced_at: Mapping[NodeId, int], told_revision: int
) -> list[Broker]:
    """The live brokers, and those fenced since the image of a client's last Metadata answer.

    So a client first learns the new leaders, and then that the fenced broker is gone. librdkafka
    2.16 sends nothing to a partition for up to a second if it learns both at once.
    If all brokers are fenced, all are listed: a client that is told of none drops every address,
    and gateways serve them all. In Kafka the broker that answers is always there.
    `fenced_at` has the revisions of the images in which nodes were fenced.
    """
    registered = registered_brokers(image)
    if all(broker.fenced for broker in registered):
        return registered
    return [
        broker
        for broker in registered
        if not broker.fenced or fenced_at.get(broker.node_id, image.revision) > told_revision
    ]


def broker_of(image: ClusterImage, node_id: NodeId) -> Broker | None:
    """One node as a broker; None if there is no such node or no gateway serves it."""
    node = image.nodes.get(node_id)
    return None if node is None else _broker(image, node)


def controller_among(brokers: list[Broker]) -> NodeId:
    """The broker that clients send admin requests to, -1 if there is none.

    Every gateway forwards to the controller, so any broker will do; with the first one all
    clients get the same answer.
    """
    return next((broker.node_id for broker in brokers if not broker.fenced), NO_NODE)


def _broker(image: ClusterImage, node: NodeState) -> Broker | None:
    gateway_id = image.node_gateways.get(node.node_id)
    gateway = None if gateway_id is None else image.gateways.get(gateway_id)
    if gateway is None:
        return None
    return Broker(
        node_id=node.node_id,
        host=gateway.host,
        port=gateway.port_of(node.node_id),
        rack=node.rack,
        fenced=node.fenced,
    )
