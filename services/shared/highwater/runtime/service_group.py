"""Several services in one process: they start one after the other, and end it if one fails."""

import asyncio
from contextlib import AsyncExitStack

from highwater.runtime.lifecycle import Service


class ServiceGroup:
    """Lives as long as the process's own Service, on its loop."""

    def __init__(self, stack: AsyncExitStack) -> None:
        """`stack` stops the services, in reverse."""
        self._stack = stack
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Gets the first failure of a service; otherwise stays pending."""

    async def start(self, service: Service) -> None:
        """Returns when the service is reachable; its stop is due even if its start fails."""
        self._stack.push_async_callback(service.stop)
        await service.start()
        service.failed.add_done_callback(self._service_failed)

    def _service_failed(self, service: "asyncio.Future[None]") -> None:
        error = None if service.cancelled() else service.exception()
        if error is not None and not self.failed.done():
            self.failed.set_exception(error)
