"""A partition node as a process of its own."""

import asyncio
import sys

from highwater.metadata.endpoints import ControllerEndpoints
from highwater.model.errors import EXIT_USAGE, UsageError
from highwater.partition.config import PartitionConfig
from highwater.partition.node.node_claim import NodeClaim
from highwater.partition.service import PartitionService
from highwater.rpc.inner import Inner
from highwater.runtime import lifecycle
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import Logger, forward_standard_logging, make_logger
from highwater.runtime.memory import keep_freed_memory
from highwater.runtime.metrics import process_registry
from highwater.runtime.settings import load_settings


def run(config: PartitionConfig) -> int:
    """Runs a partition node until a signal or a failure; the process's exit code.

    Raises UsageError if no node of the data root can be claimed.
    """
    keep_freed_memory()
    log = make_logger(config.log, service="partition")
    forward_standard_logging(log)

    claim: NodeClaim | None = None
    if config.data_root is not None:
        claim = NodeClaim.take(config.data_root, config.node_id)
        config = config.as_node(claim.node_id, claim.log_dir)
        log.info("node_claimed", node_id=claim.node_id, log_dir=str(claim.log_dir))

    async def build() -> PartitionProcess:
        return PartitionProcess(config, log)

    try:
        return lifecycle.run(build, log)
    finally:
        if claim is not None:
            claim.release()


def main() -> int:
    """Runs a partition node with settings from the environment."""
    try:
        return run(load_settings(PartitionConfig))
    except UsageError as error:
        print(f"highwater: {error}", file=sys.stderr)  # noqa: T201 - the operator reads it.
        return EXIT_USAGE


class PartitionProcess:
    """The node together with its connections to the controllers."""

    def __init__(self, config: PartitionConfig, log: Logger) -> None:
        self._endpoints = ControllerEndpoints(config.controllers, inner=Inner(config.inner, log))
        self.service = PartitionService(
            config,
            clock=SystemClock(),
            endpoints=self._endpoints,
            registry=process_registry(),
            log=log,
        )

    @property
    def failed(self) -> "asyncio.Future[None]":
        """The service's."""
        return self.service.failed

    async def start(self) -> None:
        """Returns when every replica has its role."""
        await self.service.start()

    async def stop(self) -> None:
        """Stops the service, then closes the connections."""
        try:
            await self.service.stop()
        finally:
            await self._endpoints.close()


if __name__ == "__main__":
    sys.exit(main())
