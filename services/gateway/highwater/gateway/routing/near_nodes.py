"""The nodes in a client's rack, from which it would rather read (KIP-392).

Every gateway reaches every node, so what stands for a client's choice is the port that it came by:
a fetch at a follower's port goes to that follower, if the client names its rack. Other fetches go to
the leader, which may name a follower in the client's rack (`partition.core.preferred_replica`).
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from highwater.gateway.routing.brokers import live_brokers
from highwater.hop.ports import NodeLink
from highwater.model.cluster import ClusterImage
from highwater.model.ids import NodeId

if TYPE_CHECKING:
    from highwater.gateway.routing.client import Peer
    from highwater.gateway.routing.table import PartitionRoute, TopicRoutes


class NearNodes:
    """Live nodes by listener and rack. Lives as long as the routing table, and follows its image."""

    __slots__ = ("_by_rack", "_image", "_link_to")

    def __init__(self, link_to: Callable[[NodeId], NodeLink | None]) -> None:
        self._link_to = link_to
        self._image: ClusterImage | None = None
        self._by_rack: dict[str, Mapping[str, tuple[NodeId, ...]]] = {}
        """By listener. Racks are those of nodes, not those that clients name."""

    def follow(self, image: ClusterImage) -> None:
        """Takes a new image."""
        self._image = image
        self._by_rack.clear()

    def of(self, peer: "Peer", rack: str) -> tuple[NodeId, ...]:
        """The nodes that this client sees in its rack; none if its port stands for no node, so that
        it could not choose one.
        """
        if not rack or peer.node is None or self._image is None:
            return ()
        racks = self._by_rack.get(peer.listener)
        if racks is None:
            racks = self._by_rack[peer.listener] = _by_rack(self._image, peer.listener)
        return racks.get(rack, ())

    def link_for(
        self, peer: "Peer", near: tuple[NodeId, ...], routes: "TopicRoutes", route: "PartitionRoute"
    ) -> NodeLink | None:
        """The link that a fetch takes: to the node whose port it came by, if that has a replica and
        is near to the client, else to the leader.
        """
        node, known = peer.node, routes.state.partitions
        if (
            node is not None
            and node in near
            and node != route.leader
            and route.partition < len(known)
            and node in known[route.partition].replicas
        ):
            return self._link_to(node) or route.link
        return route.link


def _by_rack(image: ClusterImage, listener: str) -> Mapping[str, tuple[NodeId, ...]]:
    found: dict[str, list[NodeId]] = {}
    for broker in live_brokers(image, listener):
        found.setdefault(broker.rack, []).append(broker.node_id)
    return {rack: tuple(nodes) for rack, nodes in found.items() if rack}
