"""The nodes in a client's rack, from which it would rather read (KIP-392).

Every gateway reaches every node, so what stands for a client's choice is the port that it came by:
a fetch at a follower's port goes to that follower, if the client names its rack. Other fetches go to
the leader, which may name a follower in the client's rack (`partition.core.preferred_replica`).
"""

from collections.abc import Mapping

from highwater.gateway.routing.brokers import Entrance, live_brokers
from highwater.model.cluster import ClusterImage
from highwater.model.ids import NodeId


class NearNodes:
    """Live nodes by listener and rack. Lives as long as the routing table, and follows its image."""

    __slots__ = ("_by_rack", "_image")

    def __init__(self) -> None:
        self._image: ClusterImage | None = None
        self._by_rack: dict[str, Mapping[str, tuple[NodeId, ...]]] = {}
        """By listener. Racks are those of nodes, not those that clients name."""

    def follow(self, image: ClusterImage) -> None:
        """Takes a new image."""
        self._image = image
        self._by_rack.clear()

    def of(self, listener: str, rack: str) -> tuple[NodeId, ...]:
        """The live nodes in a rack that clients of this listener see.

        Those of an instance see the same: its ports are at every gateway with the listener that they came by.
        """
        if self._image is None:
            return ()
        racks = self._by_rack.get(listener)
        if racks is None:
            racks = self._by_rack[listener] = _by_rack(self._image, listener)
        return racks.get(rack, ())


def _by_rack(image: ClusterImage, listener: str) -> Mapping[str, tuple[NodeId, ...]]:
    found: dict[str, list[NodeId]] = {}
    for broker in live_brokers(image, Entrance(listener)):
        found.setdefault(broker.rack, []).append(broker.node_id)
    return {rack: tuple(nodes) for rack, nodes in found.items() if rack}
