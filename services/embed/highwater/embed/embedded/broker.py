"""`highwater up`: controller, partition node, quota service and gateway in one process.

The same service objects as in the services mode, with calls in place of gRPC between them and
SQLite as metadata store. Only the controller also listens (on loopback, a port that the system
chooses), so that `highwater quota set` and other tools reach it; its address is written to the data
directory.
"""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from highwater.controller.config import ControllerConfig
from highwater.controller.service import ControllerService
from highwater.embed.up.data_dir import DataDir
from highwater.embed.up.options import inner_files
from highwater.gateway.config import GatewayConfig
from highwater.gateway.service import GatewayService
from highwater.metadata.in_process import InProcessStub
from highwater.model.errors import HighwaterError
from highwater.partition.config import PartitionConfig
from highwater.partition.service import PartitionService
from highwater.quota.config import QuotaConfig
from highwater.quota.service import QuotaService
from highwater.runtime.clock import SystemClock
from highwater.runtime.health import Readiness
from highwater.runtime.logging import Logger
from highwater.runtime.loop_lag import LoopLagMonitor
from highwater.runtime.metrics import MetricsServer
from highwater.runtime.service_group import ServiceGroup

ELECTION_TIMEOUT_S: Final = 10.0
PROCESS: Final = "highwater"
"""The name of the only process, among those that serve metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The settings of all services; `metrics_port` 0 lets the system choose, None is off."""

    data_dir: DataDir
    controller: ControllerConfig
    quota: QuotaConfig
    partition: PartitionConfig
    gateway: GatewayConfig
    metrics_port: int | None = 0


class EmbeddedBroker:
    """A whole cluster of one node. Implements the process's Service protocol."""

    def __init__(self, settings: BrokerSettings, log: Logger) -> None:
        self._settings = settings
        self._log = log
        self._stack = AsyncExitStack()
        self._services = ServiceGroup(self._stack)
        self.failed = self._services.failed
        self.registry = CollectorRegistry()
        self.metrics_addresses: dict[str, str] = {}
        """host:port of /metrics by process; after `start`."""
        self.gateway: GatewayService
        self.partition: PartitionService
        self.controller: ControllerService
        self.quota: QuotaService

    @property
    def port(self) -> int:
        """The port that clients connect to; after `start`."""
        return self.gateway.port

    async def start(self) -> None:
        """Returns when clients can connect. Raises UsageError for operators' mistakes."""
        settings = self._settings
        settings.data_dir.acquire()
        self._stack.callback(settings.data_dir.release)
        settings.data_dir.make_secret()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        clock = SystemClock()
        self.controller = ControllerService(
            settings.controller, clock=clock, registry=self.registry, log=self._log
        )
        await self._services.start(self.controller)
        try:
            await self.controller.wait_active(ELECTION_TIMEOUT_S)
        except TimeoutError:
            raise HighwaterError("the controller could not take office in time") from None
        settings.data_dir.write_inner(inner_files(settings.controller.inner))
        settings.data_dir.write_controller_address(self.controller.address)
        endpoints = self.controller.in_process_endpoints()
        self._stack.push_async_callback(endpoints.close)
        self.partition = PartitionService(
            settings.partition,
            clock=clock,
            endpoints=endpoints,
            registry=self.registry,
            log=self._log.bind(service="partition"),
            embedded=True,
        )
        # The quota service shares the watch that the node starts.
        self.quota = QuotaService(
            settings.quota,
            clock=clock,
            watch=self.partition.watch,
            registry=self.registry,
            log=self._log.bind(service="quota"),
            serve_grpc=False,
        )
        self.partition.connect_quota(InProcessStub(self.quota.servicer))
        await self._services.start(self.quota)
        await self._services.start(self.partition)
        self.gateway = GatewayService(
            settings.gateway,
            clock=clock,
            endpoints=endpoints,
            registry=self.registry,
            log=self._log.bind(service="gateway"),
            embedded=True,
        )
        self.gateway.add_local_node(self.partition.local_link(self.gateway.turn.defer))
        await self._services.start(self.gateway)
        await self._observe()

    async def stop(self) -> None:
        """Stops the services in reverse."""
        await self._stack.aclose()

    async def _observe(self) -> None:
        monitor = LoopLagMonitor("embedded", self.registry, self._log)
        self._stack.push_async_callback(monitor.stop)
        await monitor.start()
        if self._settings.metrics_port is None:
            return
        readiness = Readiness()
        readiness.add("gateway", self.gateway.readiness.ready)
        metrics = MetricsServer(
            self.registry,
            readiness,
            host=self._settings.gateway.metrics.host,
            port=self._settings.metrics_port,
        )
        self._stack.push_async_callback(metrics.stop)
        await metrics.start()
        host = self._settings.gateway.metrics.host
        self.metrics_addresses = {PROCESS: f"{host}:{metrics.port}"}
        self._settings.data_dir.write_metrics(self.metrics_addresses)
