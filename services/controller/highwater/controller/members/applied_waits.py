"""Who waits until live members have applied a revision."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from highwater.controller.core.liveness import SessionTable
from highwater.model.cluster import ClusterImage
from highwater.model.ids import GatewayId, NodeId
from highwater.runtime.logging import Logger

K = TypeVar("K")

APPLIED_WAIT_MS_MAX: Final = 1_000
"""How long a mutating admin call waits until live members apply its revision (decision 9)."""


class AppliedWaits:
    """Of one term; used on the controller's loop."""

    def __init__(
        self,
        image: Callable[[], ClusterImage],
        nodes: SessionTable[NodeId],
        gateways: SessionTable[GatewayId],
        log: Logger,
    ) -> None:
        """`image` is the newest one; the sessions say what members have applied."""
        self._image = image
        self._nodes = nodes
        self._gateways = gateways
        self._log = log
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    async def wait(self, revision: int, timeout_ms: int) -> bool:
        """Waits until all live members have applied the revision; False on timeout."""
        if not self._behind(revision):
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((revision, waiter))
        try:
            async with asyncio.timeout(min(timeout_ms, APPLIED_WAIT_MS_MAX) / 1000):
                await waiter
        except TimeoutError:
            late = self._behind(revision)
            self._log.info("members_behind", revision=revision, members=[str(m) for m in late])
            return False
        finally:
            self._waiters = [(r, w) for r, w in self._waiters if w is not waiter]
        return True

    def check(self) -> None:
        """Ends the waits that are over; call it when a member has applied more, or is gone."""
        for revision, waiter in self._waiters:
            if not waiter.done() and not self._behind(revision):
                waiter.set_result(None)

    def _behind(self, revision: int) -> list[NodeId | GatewayId]:
        """Live members with an older image; unconfirmed members may not exist any more."""
        image = self._image()
        late: list[NodeId | GatewayId] = [
            node
            for node in self._nodes.behind(revision)
            if node in image.nodes
            and not image.nodes[node].fenced
            and _confirmed(self._nodes, node)
        ]
        # One that has said that it stops drains: it names others, and sends no heartbeats any more.
        late += [
            gateway
            for gateway in self._gateways.behind(revision)
            if gateway in image.gateways and _confirmed(self._gateways, gateway)
        ]
        return late


def _confirmed(table: SessionTable[K], member: K) -> bool:
    session = table.get(member)
    return session is not None and session.confirmed
