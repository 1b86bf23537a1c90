"""A gateway as a process of its own."""

import asyncio
import sys

from highwater.gateway.config import GatewayConfig
from highwater.gateway.service import GatewayService
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.model.errors import EXIT_USAGE, UsageError
from highwater.rpc.inner import Inner
from highwater.runtime import lifecycle
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import Logger, forward_standard_logging, make_logger
from highwater.runtime.memory import keep_freed_memory
from highwater.runtime.metrics import process_registry
from highwater.runtime.settings import load_settings


def run(config: GatewayConfig) -> int:
    """Runs a gateway until a signal or a failure; returns the process's exit code."""
    keep_freed_memory()
    log = make_logger(config.log, service="gateway")
    forward_standard_logging(log)

    async def build() -> GatewayProcess:
        return GatewayProcess(config, log)

    return lifecycle.run(build, log)


def main() -> int:
    """Runs a gateway with settings from the environment."""
    try:
        return run(load_settings(GatewayConfig))
    except UsageError as error:
        print(f"highwater: {error}", file=sys.stderr)  # noqa: T201 - the operator reads it.
        return EXIT_USAGE


class GatewayProcess:
    """The gateway together with its connections to the controllers."""

    def __init__(self, config: GatewayConfig, log: Logger) -> None:
        self._endpoints = ControllerEndpoints(config.controllers, inner=Inner(config.inner, log))
        self.service = GatewayService(
            config,
            clock=SystemClock(),
            endpoints=self._endpoints,
            registry=process_registry(),
            log=log,
        )

    @property
    def failed(self) -> "asyncio.Future[None]":
        """Resolves when the service fails."""
        return self.service.failed

    async def start(self) -> None:
        """Returns when clients can connect."""
        await self.service.start()

    async def stop(self) -> None:
        """Stops the service, then closes the connections."""
        try:
            await self.service.stop()
        finally:
            await self._endpoints.close()


if __name__ == "__main__":
    sys.exit(main())
