"""The brokers that clients see: each is a partition node with an address on some gateway.

A gateway has an address for each of its listeners, and on each for every instance that has a block of
ports there. Clients get those of the listener that they came by and of their own instance, and do not see
brokers without it (KIP-103; Kafka: `KRaftMetadataCache`).
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterImage, GatewayState, NodeState
from highwater.model.ids import DEFAULT_INSTANCE, NO_NODE, InstanceId, NodeId
from highwater.model.listener_names import DEFAULT_LISTENER, PROTOCOL


class Entrance(NamedTuple):
    """What a client came by: a listener of gateways, and the instance whose ports it used there."""

    listener: str = DEFAULT_LISTENER
    instance: InstanceId = DEFAULT_INSTANCE


class Broker(NamedTuple):
    """A node with the address that clients reach it by."""

    node_id: NodeId
    host: str
    port: int
    rack: str
    fenced: bool


class FencedNode(NamedTuple):
    """A node that is fenced, as the images have told."""

    revision: int
    """That of the image in which it was fenced; -1 if that was before the first one."""
    gateway: GatewayState | None
    """The gateway of its process, which may be gone by now; None if none is known."""


def registered_brokers(image: ClusterImage, entrance: Entrance) -> list[Broker]:
    """All nodes that some gateway serves at this entrance, fenced or not, by id."""
    return _registered(image, entrance, {})


def live_brokers(image: ClusterImage, entrance: Entrance) -> list[Broker]:
    """The registered brokers that are not fenced: those that clients get to know.

    A fenced node leads nothing. Its gateway still serves its address for clients that know it
    (Kafka: `MetadataCache.getAliveBrokerNodes`).
    """
    return [broker for broker in registered_brokers(image, entrance) if not broker.fenced]


def brokers_for(
    image: ClusterImage,
    entrance: Entrance,
    fenced: Mapping[NodeId, FencedNode],
    told_revision: int,
) -> list[Broker]:
    """The live brokers, and those fenced since the image of a client's last Metadata answer.

    So a client first learns the new leaders, and then that the fenced broker is gone. librdkafka
    2.16 sends nothing to a partition for up to a second if it learns both at once.
    If all brokers are fenced, all are listed: a client drops every address after an empty list,
    and gateways serve them all. In Kafka the broker that answers is always there.

    A fenced broker keeps the address that it had at the gateway of its process: it has that again when it
    is back, and clients are slow to leave another one (librdkafka's transactional producers do not, if it
    was their coordinator's). Not so if no address would answer: all are fenced, and the gateways of their
    processes gone, while others serve.
    """
    registered = _registered(image, entrance, fenced)
    if all(broker.fenced for broker in registered):
        own = [one.gateway for one in fenced.values() if one.gateway is not None]
        gone = image.gateways and not any(one.gateway_id in image.gateways for one in own)
        return registered_brokers(image, entrance) if gone else registered
    return [
        broker
        for broker in registered
        if not broker.fenced or _fenced_at(fenced, broker.node_id, image) > told_revision
    ]


def own_gateway(image: ClusterImage, node_id: NodeId) -> GatewayState | None:
    """The gateway of the node's process, if that is the one that clients get for the node."""
    gateway = _gateway_of(image, node_id)
    return gateway if gateway is not None and gateway.node_id == node_id else None


def broker_of(image: ClusterImage, node_id: NodeId, entrance: Entrance) -> Broker | None:
    """One node as a broker; None if there is no such node or no gateway serves it there."""
    node = image.nodes.get(node_id)
    return None if node is None else _broker(image, node, entrance, _gateway_of(image, node_id))


def nodes_without(image: ClusterImage, entrance: Entrance) -> set[NodeId]:
    """Nodes that are not fenced, and whose gateway does not have this entrance."""
    if entrance == Entrance():
        return set()
    return {
        node.node_id
        for node in image.nodes.values()
        if not node.fenced
        and (gateway := _gateway_of(image, node.node_id)) is not None
        and _address(image, gateway, node.node_id, entrance) is None
    }


def no_leader_code(leader: NodeId, without: AbstractSet[NodeId]) -> ErrorCode:
    """The code of a partition without a leader that the client can reach.

    `without` has the nodes whose gateways do not have the client's entrance.
    """
    return ErrorCode.LISTENER_NOT_FOUND if leader in without else ErrorCode.LEADER_NOT_AVAILABLE


def advertised_listeners(image: ClusterImage, node_id: NodeId, instance: InstanceId) -> str:
    """All addresses of a node for an instance, as Kafka's advertised.listeners; empty if it has none."""
    gateway = _gateway_of(image, node_id)
    if gateway is None:
        return ""
    names = [DEFAULT_LISTENER, *(each.name for each in gateway.listeners)]
    addresses = [
        (name, _address(image, gateway, node_id, Entrance(name, instance))) for name in names
    ]
    return ",".join(
        f"{PROTOCOL if name == DEFAULT_LISTENER else name.upper()}://{address[0]}:{address[1]}"
        for name, address in addresses
        if address is not None
    )


def controller_among(brokers: list[Broker]) -> NodeId:
    """The broker that clients send admin requests to, -1 if there is none.

    Every gateway forwards to the controller, so any broker will do; with the first one all
    clients get the same answer.
    """
    return next((broker.node_id for broker in brokers if not broker.fenced), NO_NODE)


def _registered(
    image: ClusterImage, entrance: Entrance, fenced: Mapping[NodeId, FencedNode]
) -> list[Broker]:
    """All nodes; those in `fenced` with the gateway of their process, if it is known."""
    brokers = []
    for node_id in sorted(image.nodes):
        former = fenced.get(node_id)
        gateway = (former and former.gateway) or _gateway_of(image, node_id)
        brokers.append(_broker(image, image.nodes[node_id], entrance, gateway))
    return [broker for broker in brokers if broker is not None]


def _fenced_at(fenced: Mapping[NodeId, FencedNode], node_id: NodeId, image: ClusterImage) -> int:
    known = fenced.get(node_id)
    return image.revision if known is None else known.revision


def _broker(
    image: ClusterImage, node: NodeState, entrance: Entrance, gateway: GatewayState | None
) -> Broker | None:
    address = None if gateway is None else _address(image, gateway, node.node_id, entrance)
    if address is None:
        return None
    host, port = address
    return Broker(node_id=node.node_id, host=host, port=port, rack=node.rack, fenced=node.fenced)


def _address(
    image: ClusterImage, gateway: GatewayState, node_id: NodeId, entrance: Entrance
) -> tuple[str, int] | None:
    """The address of a node for clients of an entrance; None if the gateway does not have that."""
    if entrance.instance == DEFAULT_INSTANCE:
        return gateway.address_of(node_id, entrance.listener)
    state = image.instances.get(entrance.instance)
    block = None if state is None or state.is_deleted else state.listener(entrance.listener)
    return None if block is None else gateway.address_of(node_id, entrance.listener, block)


def _gateway_of(image: ClusterImage, node_id: NodeId) -> GatewayState | None:
    gateway_id = image.node_gateways.get(node_id)
    return None if gateway_id is None else image.gateways.get(gateway_id)
