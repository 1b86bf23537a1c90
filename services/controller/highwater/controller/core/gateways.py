"""Which gateway clients are sent to for a node: the same host first, then the same rack.

Among several, rendezvous hashing chooses: a gateway that joins or leaves moves only the nodes
that it wins or held.
"""

import hashlib
from collections.abc import Iterable, Mapping

from highwater.model.cluster import GatewayState, NodeState
from highwater.model.ids import GatewayId, NodeId


def assign_gateways(
    nodes: Iterable[NodeState], gateways: Mapping[GatewayId, GatewayState]
) -> dict[NodeId, GatewayId]:
    """The gateway of every node, fenced ones too; empty without gateways."""
    if not gateways:
        return {}
    return {node.node_id: _gateway_of(node, gateways) for node in nodes}


def host_of(address: str) -> str:
    """The host of host:port; IPv6 hosts stand in brackets, which are dropped."""
    return address.rpartition(":")[0].strip("[]")


def _gateway_of(node: NodeState, gateways: Mapping[GatewayId, GatewayState]) -> GatewayId:
    host = host_of(node.address)
    near = [g for g in gateways.values() if g.host == host]
    near = near or [g for g in gateways.values() if g.rack and g.rack == node.rack]
    near = near or list(gateways.values())
    return max((g.gateway_id for g in near), key=lambda g: (_weight(node.node_id, g), g))


def _weight(node: NodeId, gateway: GatewayId) -> bytes:
    return hashlib.blake2b(f"{node}/{gateway}".encode(), digest_size=8).digest()
