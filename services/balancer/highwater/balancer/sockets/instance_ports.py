"""Publishes the ports of instances as images come; opens them again that could not be opened."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from highwater.balancer.core.instance_blocks import instance_ports
from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.model.errors import UsageError
from highwater.runtime.logging import Logger

RETRY_S: Final = 1.0


class InstancePorts:
    """Keeps the ports while `run` runs. Connections of a port that closes end when a gateway ends them."""

    def __init__(
        self,
        listener: str,
        listen: Callable[[int, int], Awaitable[asyncio.Server]],
        *,
        log: Logger,
    ) -> None:
        """`listener` is the gateways' one that clients come by; `listen` opens a port that leads to one of
        the gateways, or raises UsageError.
        """
        self._listener: Final = listener
        self._listen: Final = listen
        self._log: Final = log
        self._wanted: dict[int, int] = {}
        self._open: dict[int, tuple[int, asyncio.Server]] = {}
        """By port that of the gateways, and the server."""
        self._told: dict[int, str] = {}
        self._changed = asyncio.Event()

    @property
    def ports(self) -> frozenset[int]:
        """Those that are open."""
        return frozenset(self._open)

    @property
    def missing(self) -> int:
        """How many could not be opened when it last tried."""
        return len(self._told)

    def follow(self, image: ClusterImage, _delta: ClusterDelta | None) -> None:
        """Takes a new image."""
        wanted = instance_ports(image, self._listener)
        if wanted != self._wanted:
            self._wanted = wanted
            self._changed.set()

    async def run(self) -> None:
        """Opens and closes ports until it is cancelled."""
        while True:
            await self._apply()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_S if self._told else None):
                    await self._changed.wait()
            self._changed.clear()

    def close(self) -> None:
        """Closes all ports, and opens none any more; connections stay open."""
        self._wanted = {}
        for _, server in self._open.values():
            server.close()
        self._open.clear()

    async def _apply(self) -> None:
        for port, (leads_to, server) in list(self._open.items()):
            if self._wanted.get(port) != leads_to:
                server.close()
                del self._open[port]
        wanted = self._wanted
        for port in self._told.keys() - wanted.keys():
            del self._told[port]
        for port, leads_to in wanted.items():
            if port in self._open:
                continue
            try:
                self._open[port] = leads_to, await self._listen(port, leads_to)
                self._told.pop(port, None)
            except UsageError as error:
                if self._told.get(port) != str(error):
                    self._told[port] = str(error)
                    self._log.error("port_not_opened", error=str(error))
