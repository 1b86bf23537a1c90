"""Gateways: which are well-formed, and which one clients get for a node.

A node whose process has a gateway gets that one for as long as it is registered, also while the node
is fenced: no other gateway serves the node's port meanwhile. Other nodes get a gateway on the same
host first, then one in the same rack, then any; among those a gateway without a node of its own, as
the others have their node's work.

No node gets a gateway whose port for it is in the block of another one on the same advertised host (see
`highwater.model.block_overlaps`), unless that is so with every gateway.

Node 0 has no port in a block, which begins with the bootstrap port: it is for gateways that serve
everything at one port.

Among several, rendezvous hashing chooses: if a gateway joins or leaves, only the nodes that it
gets or had move.
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from highwater.controller.core.outcome import PENDING_REVISION, Decision, unchanged
from highwater.model.block_overlaps import BlockOverlap, block_overlaps
from highwater.model.cluster import (
    ClusterDelta,
    ClusterImage,
    GatewayState,
    NodeState,
)
from highwater.model.ids import NO_NODE, GatewayId, NodeId
from highwater.model.listener_names import invalid_listener_names


def malformed_gateway(gateway: GatewayState) -> str | None:
    """Why a gateway cannot be registered, or None."""
    if not gateway.gateway_id or not _is_address(gateway.host, gateway.port):
        return "a gateway needs an id, a host and a port"
    for listener in gateway.listeners:
        if not _is_address(listener.host, listener.port):
            return f"listener '{listener.name}' needs a host and a port"
        if listener.name != listener.name.lower():
            return f"listener '{listener.name}' is not in lower case"
    return invalid_listener_names(listener.name for listener in gateway.listeners)


def node_without_port(nodes: Collection[NodeId], gateways: Iterable[GatewayState]) -> str | None:
    """Why these nodes and these gateways cannot be in one cluster, or None.

    The bootstrap port cannot be node 0's as well: it answers for all nodes where a node's port answers
    for that one (ListGroups, DescribeLogDirs).
    """
    if 0 not in nodes:
        return None
    blocks = sorted(each.gateway_id for each in gateways if not each.single_port)
    if not blocks:
        return None
    return (
        f"node id 0 is for a broker with one port: the ports of gateway {blocks[0]} begin with the "
        "bootstrap port, and with that of node 1 behind it"
    )


def assign_gateways(
    nodes: Iterable[NodeState], gateways: Mapping[GatewayId, GatewayState]
) -> dict[NodeId, GatewayId]:
    """The gateway of every node, including fenced ones; empty without gateways."""
    if not gateways:
        return {}
    # A process that was started again under another name may leave its former gateway behind for
    # as long as a session: the larger id wins, so that all controllers choose the same.
    own = {
        gateway.node_id: gateway_id
        for gateway_id, gateway in sorted(gateways.items())
        if gateway.node_id != NO_NODE
    }
    overlaps: defaultdict[GatewayId, list[BlockOverlap]] = defaultdict(list)
    for overlap in block_overlaps(gateways.values()):
        overlaps[overlap.gateway_id].append(overlap)

    def serves(gateway_id: GatewayId, node: NodeId) -> bool:
        return not any(each.takes(node) for each in overlaps.get(gateway_id, ()))

    found = {}
    for node in nodes:
        chosen = own.get(node.node_id)
        if chosen is None or not serves(chosen, node.node_id):
            able = [g for name, g in gateways.items() if serves(name, node.node_id)]
            chosen = _gateway_of(node, able or gateways.values())
        found[node.node_id] = chosen
    return found


def take_leave(image: ClusterImage, gateway_id: GatewayId) -> Decision[bool]:
    """Removes a gateway that stops and still serves, so that clients get others; whether it was there.

    The only gateway stays until its session ends: clients could go nowhere else.
    """
    if gateway_id not in image.gateways or len(image.gateways) == 1:
        return unchanged(False)
    removed = frozenset({gateway_id})
    return Decision(
        delta=ClusterDelta(revision=PENDING_REVISION, removed_gateways=removed), result=True
    )


def overlaps_met(
    nodes: Iterable[NodeId], gateways: Iterable[GatewayState]
) -> tuple[BlockOverlap, ...]:
    """The overlaps of blocks that take a port from some gateway for one of these nodes."""
    highest = max(nodes, default=NO_NODE)
    return tuple(each for each in block_overlaps(gateways) if each.takes(highest))


def host_of(address: str) -> str:
    """The host of host:port, without the brackets around an IPv6 address."""
    return address.rpartition(":")[0].strip("[]")


def _gateway_of(node: NodeState, gateways: Iterable[GatewayState]) -> GatewayId:
    host = host_of(node.address)
    everyone = list(gateways)
    near = [g for g in everyone if host in (g.host, *(each.host for each in g.listeners))]
    near = near or [g for g in everyone if g.rack and g.rack == node.rack]
    near = near or everyone
    near = [g for g in near if g.node_id == NO_NODE] or near
    return max((g.gateway_id for g in near), key=lambda g: (_weight(node.node_id, g), g))


def _is_address(host: str, port: int) -> bool:
    return bool(host) and 0 < port <= 65_535


def _weight(node: NodeId, gateway: GatewayId) -> bytes:
    return hashlib.blake2b(f"{node}/{gateway}".encode(), digest_size=8).digest()
