"""The quota service as a process of its own."""

import asyncio
import sys

from highwater.metadata.endpoints import ControllerEndpoints
from highwater.metadata.watch import ClusterWatch
from highwater.model.errors import EXIT_USAGE, UsageError
from highwater.quota.config import QuotaConfig
from highwater.quota.service import QuotaService
from highwater.rpc.inner import Inner
from highwater.runtime import lifecycle
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import Logger, forward_standard_logging, make_logger
from highwater.runtime.metrics import process_registry
from highwater.runtime.settings import load_settings


def run(config: QuotaConfig) -> int:
    """Runs a quota service until a signal or a failure; the process's exit code."""
    log = make_logger(config.log, service="quota")
    forward_standard_logging(log)

    async def build() -> QuotaProcess:
        return QuotaProcess(config, log)

    return lifecycle.run(build, log)


def main() -> int:
    """Runs a quota service with settings from the environment."""
    try:
        return run(load_settings(QuotaConfig))
    except UsageError as error:
        print(f"highwater: {error}", file=sys.stderr)  # noqa: T201 - the operator reads it.
        return EXIT_USAGE


class QuotaProcess:
    """The quota service together with its watch of the metadata."""

    def __init__(self, config: QuotaConfig, log: Logger) -> None:
        registry = process_registry()
        self._endpoints = ControllerEndpoints(config.controllers, inner=Inner(config.inner, log))
        self._watch = ClusterWatch(self._endpoints, log=log)
        self.service = QuotaService(
            config, clock=SystemClock(), watch=self._watch, registry=registry, log=log
        )
        self._watch.failed.add_done_callback(self._watch_failed)

    @property
    def failed(self) -> "asyncio.Future[None]":
        """Resolves when the service or the watch fails."""
        return self.service.failed

    async def start(self) -> None:
        """Starts the watch, then the service; allocations begin with the first image."""
        self._watch.start()
        await self.service.start()

    async def stop(self) -> None:
        """Stops in reverse."""
        await self.service.stop()
        await self._watch.stop()
        await self._endpoints.close()

    def _watch_failed(self, watch: "asyncio.Future[None]") -> None:
        error = None if watch.cancelled() else watch.exception()
        if error is not None and not self.service.failed.done():
            self.service.failed.set_exception(error)


if __name__ == "__main__":
    sys.exit(main())
