"""Partition nodes as the brokers that clients connect to: each has an address on some gateway."""

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
    """All nodes that some gateway serves, by id; fenced ones among them."""
    brokers = (_broker(image, image.nodes[node_id]) for node_id in sorted(image.nodes))
    return [broker for broker in brokers if broker is not None]


def live_brokers(image: ClusterImage) -> list[Broker]:
    """Those of `registered_brokers` that are not fenced: the brokers that clients are told of.

    A fenced node leads nothing. Its gateway still serves its address for clients that know it
    (Kafka: `MetadataCache.getAliveBrokerNodes`).
    """
    return [broker for broker in registered_brokers(image) if not broker.fenced]


def brokers_for(
    image: ClusterImage, fenced_at: Mapping[NodeId, int], told_revision: int
) -> list[Broker]:
    """The live brokers, and those fenced after the image that a client was told of last.

    So a client first hears that other brokers lead, and then that the fenced broker is gone.
    librdkafka 2.16 sends nothing to a partition for up to a second if it hears both at once.
    `fenced_at` has the revisions of the images in which nodes were fenced.
    """
    return [
        broker
        for broker in registered_brokers(image)
        if not broker.fenced or fenced_at.get(broker.node_id, image.revision) > told_revision
    ]


def broker_of(image: ClusterImage, node_id: NodeId) -> Broker | None:
    """One node as a broker; None if there is no such node or no gateway serves it."""
    node = image.nodes.get(node_id)
    return None if node is None else _broker(image, node)


def controller_among(brokers: list[Broker]) -> NodeId:
    """The broker that clients send admin requests to, -1 if there is none.

    Any will do, as every gateway forwards to the true controller; the first one keeps the answer
    the same for everybody.
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
