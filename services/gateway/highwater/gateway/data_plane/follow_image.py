"""A new image, carried out by a gateway: links, then routes, and produce that goes their new ways.

In steps, for a dead node can change the routes of thousands of partitions. Before each step ends,
what is held or under way for the partitions that moved in it follows their new routes, so that
batches of one partition stay in order whoever sends some in between.
"""

from highwater.gateway.data_plane.held_produce import HeldProduce
from highwater.gateway.routing.node_links import NodeLinks
from highwater.gateway.routing.table import RoutingTable
from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.model.steps import Steps


class ImageFollower:
    """Lives as long as the gateway; `following` runs to its end before the next image comes."""

    def __init__(self, links: NodeLinks, routing: RoutingTable, held: HeldProduce | None) -> None:
        """`held` is None where batches are never held: in the embedded mode."""
        self._links = links
        self._routing = routing
        self._held = held

    def following(self, image: ClusterImage, delta: ClusterDelta | None) -> Steps[None]:
        """One image; `delta` is what changed since the last one, None if that is not known."""
        relink = self._links.apply(image)
        for _ in self._routing.applying(image, delta):
            self._follow_moves()
            yield
        for _ in self._routing.relinking() if relink else ():
            self._follow_moves()
            yield
        self._follow_moves()
        self._links.routes_followed()

    def _follow_moves(self) -> None:
        moves, gone = self._routing.take_changes()
        if self._held is not None and (moves or gone):
            self._held.follow(moves, gone)
