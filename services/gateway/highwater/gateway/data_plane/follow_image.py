"""Applies a new image to a gateway: links first, then routes and the produce that they move.

In steps, because a dead node can change the routes of thousands of partitions, and ten thousand
fetches may wait for it, which are answered when all routes are new. Before each step
ends, batches of the partitions that moved in it follow the new routes, if they are held or in
flight. So the batches of one partition stay in order, even if others are sent in between.
"""

from highwater.gateway.data_plane.held_produce import HeldProduce
from highwater.gateway.routing.node_links import NodeLinks
from highwater.gateway.routing.table import RoutingTable
from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.model.steps import Steps


class ImageFollower:
    """Lives as long as the gateway; `following` must end before the next image comes."""

    def __init__(self, links: NodeLinks, routing: RoutingTable, held: HeldProduce | None) -> None:
        """`held` is None if the only node is in this process, where batches are never held."""
        self._links = links
        self._routing = routing
        self._held = held

    def following(self, image: ClusterImage, delta: ClusterDelta | None) -> Steps[None]:
        """Applies one image; `delta` is its change since the last one, None if not known."""
        relink = self._links.apply(image)
        for _ in self._routing.applying(image, delta):
            self._follow_moves()
            yield
        for _ in self._routing.relinking() if relink else ():
            self._follow_moves()
            yield
        self._follow_moves()
        yield from self._links.routes_following()

    def _follow_moves(self) -> None:
        moves, gone = self._routing.take_changes()
        if self._held is not None and (moves or gone):
            self._held.follow(moves, gone)
