"""Which gateway clients get for a node: one on the same host first, then one in the same rack.

Among several, rendezvous hashing chooses: if a gateway joins or leaves, only the nodes that it
gets or had move.
"""

import hashlib
from collections.abc import Iterable, Mapping

from highwater.model.cluster import GatewayState, NodeState
from highwater.model.ids import GatewayId, NodeId


def assign_gateways(
    nodes: Iterable[NodeState], gateways: Mapping[GatewayId, GatewayState]
) -> dict[NodeId, GatewayId]:
    """The gateway of every node, including fenced ones; empty without gateways."""
    if not gateways:
        return {}
    return {node.node_id: _gateway_of(node, gateways) for node in nodes}


def host_of(address: str) -> str:
    """The host of host:port, without the brackets around an IPv6 address."""
    return address.rpartition(":")[0].strip("[]")


def _gateway_of(node: NodeState, gateways: Mapping[GatewayId, GatewayState]) -> GatewayId:
    host = host_of(node.address)
    near = [g for g in gateways.values() if g.host == host]
    near = near or [g for g in gateways.values() if g.rack and g.rack == node.rack]
    near = near or list(gateways.values())
    return max((g.gateway_id for g in near), key=lambda g: (_weight(node.node_id, g), g))


def _weight(node: NodeId, gateway: GatewayId) -> bytes:
    return hashlib.blake2b(f"{node}/{gateway}".encode(), digest_size=8).digest()
