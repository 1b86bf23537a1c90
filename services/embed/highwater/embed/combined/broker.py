"""`highwater broker`: a partition node and its gateway in one process and on one loop.

The gateway reaches its own node by calls, other nodes by gRPC; so a client that follows Metadata sends
every request to the process that answers it. Controller and quota service stay elsewhere, or the
controller joins as a third role (Kafka: process.roles).

Start: controller, node, gateway. Stop, as in Kafka: the node lets others lead while its gateway still
serves clients; then the gateway closes its ports, and the node ends, and the controller last.
"""

from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from highwater.controller.service import ControllerService
from highwater.embed.combined.settings import CombinedSettings
from highwater.gateway.service import GatewayService
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.model.time import Clock
from highwater.partition.node.node_claim import NodeClaim
from highwater.partition.service import PartitionService
from highwater.rpc.inner import Inner
from highwater.runtime import lifecycle
from highwater.runtime.clock import SystemClock
from highwater.runtime.health import Readiness
from highwater.runtime.logging import Logger, forward_standard_logging, make_logger
from highwater.runtime.loop_lag import LoopLagMonitor
from highwater.runtime.memory import keep_freed_memory
from highwater.runtime.metrics import MetricsSettings, process_registry, serve_metrics
from highwater.runtime.service_group import ServiceGroup

PROCESS: Final = "broker"
"""The name of the process among those that measure their loops."""
FOLLOW_S: Final = 1.0
"""For the gateway to send on what it held while its node handed over; milliseconds as a rule."""


def run_combined(settings: CombinedSettings) -> int:
    """Runs the process until a signal or a failure; its exit code.

    Raises UsageError if no node of the data root can be claimed.
    """
    keep_freed_memory()
    log = make_logger(settings.log, service=PROCESS)
    forward_standard_logging(log)

    claim: NodeClaim | None = None
    partition = settings.partition
    if partition is not None and partition.data_root is not None:
        claim = NodeClaim.take(partition.data_root, partition.node_id)
        settings = settings.with_partition(partition.as_node(claim.node_id, claim.log_dir))
        log.info("node_claimed", node_id=claim.node_id, log_dir=str(claim.log_dir))

    async def build() -> CombinedBroker:
        return CombinedBroker(settings, log)

    try:
        return lifecycle.run(build, log)
    finally:
        if claim is not None:
            claim.release()


class CombinedBroker:
    """The services of one process; see the module. Implements the process's Service protocol."""

    def __init__(
        self, settings: CombinedSettings, log: Logger, *, clock: Clock | None = None
    ) -> None:
        """To be built on the loop that it runs on."""
        self._settings = settings
        self._log = log
        self._clock = clock or SystemClock()
        self.registry = process_registry()
        self.readiness = Readiness()
        self._stack = AsyncExitStack()
        self._services = ServiceGroup(self._stack)
        self.failed = self._services.failed
        self.controller: ControllerService | None = None
        self.partition: PartitionService | None = None
        self.gateway: GatewayService | None = None
        """Each is None before its start, or if the process does not have its role."""

    async def start(self) -> None:
        """Returns when every service is reachable. Raises UsageError for operators' mistakes."""
        settings = self._settings
        for role in settings.services:
            self.readiness.add(role, partial(self._is_ready, role))
        await serve_metrics(self._stack, settings.metrics, self.registry, self.readiness)
        monitor = LoopLagMonitor(PROCESS, self.registry, self._log)
        self._stack.push_async_callback(monitor.stop)
        await monitor.start()
        await self._start_controller()
        if settings.controllers:
            endpoints = ControllerEndpoints(
                settings.controllers, inner=Inner(settings.inner, self._log)
            )
            self._stack.push_async_callback(endpoints.close)
            await self._start_partition(endpoints)
            await self._start_gateway(endpoints)

    async def stop(self) -> None:
        """See the module."""
        if self.partition is not None and self.gateway is not None:
            await self.partition.hand_over()
            revision = self.partition.watch.applied_revision
            await self.gateway.follow_leaders(revision, FOLLOW_S)
        await self._stack.aclose()

    def _is_ready(self, role: str) -> bool:
        services = {
            "controller": self.controller,
            "partition": self.partition,
            "gateway": self.gateway,
        }
        service = services[role]
        return service is not None and service.readiness.ready()

    async def _start_controller(self) -> None:
        config = self._settings.controller
        if config is None:
            return
        controller = ControllerService(
            # The process has one endpoint for all its services.
            config.model_copy(update={"metrics": MetricsSettings()}),
            clock=self._clock,
            registry=self.registry,
            log=self._log,
        )
        await self._services.start(controller)
        self.controller = controller

    async def _start_partition(self, endpoints: ControllerEndpoints) -> None:
        config = self._settings.partition
        if config is None:
            return
        partition = PartitionService(
            config,
            clock=self._clock,
            endpoints=endpoints,
            registry=self.registry,
            log=self._log.bind(service="partition"),
            observed=True,
            has_gateway=self._settings.gateway is not None,
        )
        await self._services.start(partition)
        self.partition = partition

    async def _start_gateway(self, endpoints: ControllerEndpoints) -> None:
        config = self._settings.gateway
        if config is None:
            return
        gateway = GatewayService(
            config,
            clock=self._clock,
            endpoints=endpoints,
            registry=self.registry,
            log=self._log.bind(service="gateway"),
            observed=True,
        )
        if self.partition is not None:
            gateway.add_member(self.partition.member_link(gateway.turn.defer, gateway.held))
        await self._services.start(gateway)
        self.gateway = gateway
