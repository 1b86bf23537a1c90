"""The lines that people and scripts wait for: the addresses of metrics, and "ready"."""

import asyncio
from collections.abc import Callable, Mapping

from highwater.runtime.lifecycle import Service


class Announced:
    """A service that says on standard output when clients can connect."""

    def __init__(
        self,
        service: Service,
        address: Callable[[], tuple[str, int]],
        metrics: Callable[[], Mapping[str, str]],
    ) -> None:
        """Called after the start: host and port of the bootstrap address, and of each process'
        /metrics by its name.
        """
        self._service = service
        self._address = address
        self._metrics = metrics

    @property
    def failed(self) -> "asyncio.Future[None]":
        """Resolves when the service fails."""
        return self._service.failed

    async def start(self) -> None:
        """Starts the service, then prints the lines; the last one says that clients can connect."""
        await self._service.start()
        for name, address in self._metrics().items():
            print(f"Metrics of {name}: http://{address}/metrics", flush=True)  # noqa: T201
        host, port = self._address()
        print(f"Highwater is ready on {host}:{port}", flush=True)  # noqa: T201 - see the module.

    async def stop(self) -> None:
        """Stops the service."""
        await self._service.stop()
