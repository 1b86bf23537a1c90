"""Gateways: copies of the image that come at their own time, and what clients get from them.

Every gateway's epochs only grow. Between gateways they do not: a client drops what is older than
what it knows (KIP-320).
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.sim.clients import Endpoint
from tests.sim.network import GATEWAY

if TYPE_CHECKING:
    from tests.sim.controller import Published
    from tests.sim.world import World

DELAY_MS = 30
LATE_MS = 1_500
"""Longer than a session: its watch stands still while others elect."""
LATE_SHARE = 0.2


class Gateway(Endpoint):
    """The newest image that has arrived; it never goes back."""

    image: Published | None = None

    def on_image(self, image: Published) -> None:
        if self.image is None or image.revision > self.image.revision:
            self.image = image

    def metadata(self) -> tuple[int, int] | None:
        """(node, leader epoch) as a client is told; the node is -1 while nobody leads."""
        if self.image is None:
            return None
        partition = self.image.partition
        self.world.observer.told(self, partition.leader_epoch)
        return partition.leader, partition.leader_epoch


class Gateways:
    """One on the network, and in some seeds another one, of which clients ask either.

    The other one takes what has arrived when it is asked: it costs no event, and its chance is a
    generator of its own, so that the seeds without it are what they were before there was one.
    """

    def __init__(self, world: World) -> None:
        self.first: Gateway = world.bug.gateway(world, GATEWAY)
        self.second: Gateway | None = None
        if world.options.gateways > 1:
            self.second = world.bug.gateway(world, GATEWAY - 1)
        self._world = world
        self._random = Random(world.options.seed * 69_069 + 5)
        self._coming: list[tuple[int, Published]] = []
        """(arrival, image) on the way to the second one."""

    def published(self, image: Published) -> None:
        """The controller sends an image to all; here to those that are not on the network."""
        if self.second is not None:
            late = self._random.random() < LATE_SHARE
            delay = 1 + int(self._random.random() * (LATE_MS if late else DELAY_MS))
            self._coming.append((self._world.now + delay, image))

    def ask(self) -> tuple[int, int] | None:
        """Metadata from any gateway."""
        second = self.second
        if second is None or self._random.random() < 0.5:
            return self.first.metadata()
        arrived = sorted((c for c in self._coming if c[0] <= self._world.now), key=_arrival)
        self._coming = [c for c in self._coming if c[0] > self._world.now]
        for _, image in arrived:
            second.on_image(image)
        return second.metadata()


def _arrival(coming: tuple[int, Published]) -> int:
    return coming[0]
