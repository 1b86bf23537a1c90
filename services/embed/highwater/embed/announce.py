"""The line that people and scripts wait for."""

import asyncio
from collections.abc import Callable

from highwater.runtime.lifecycle import Service


class Announced:
    """A service that says on standard output when clients can connect."""

    def __init__(self, service: Service, address: Callable[[], tuple[str, int]]) -> None:
        """`address` gives host and port of the bootstrap address; called after the start."""
        self._service = service
        self._address = address

    @property
    def failed(self) -> "asyncio.Future[None]":
        """The service's."""
        return self._service.failed

    async def start(self) -> None:
        """Starts the service, then says so."""
        await self._service.start()
        host, port = self._address()
        print(f"Highwater is ready on {host}:{port}", flush=True)  # noqa: T201 - that is its job.

    async def stop(self) -> None:
        """Stops the service."""
        await self._service.stop()
