"""`highwater up`: controller, partition node, quota service and gateway in one process.

The same service objects as in the services mode, with calls in place of gRPC between them and
SQLite as metadata store. The controller alone also listens (on loopback, a port of the system's
choice), so that `highwater quota set` and other tools reach it; its address is left in the data
directory.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from highwater.controller.config import ControllerConfig
from highwater.controller.service import ControllerService
from highwater.gateway.config import GatewayConfig
from highwater.gateway.service import GatewayService
from highwater.model.errors import UsageError
from highwater.partition.config import PartitionConfig
from highwater.partition.service import PartitionService
from highwater.runtime.clock import SystemClock
from highwater.runtime.health import Readiness
from highwater.runtime.logging import Logger
from highwater.runtime.loop_lag import LoopLagMonitor
from highwater.runtime.metrics import MetricsServer

CONTROLLER_ADDRESS_FILE: Final = "controller.address"
ELECTION_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """What `highwater up` takes; see its --help."""

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 9092
    metrics_port: int | None = None
    auto_create_topics: bool = True
    default_partitions: int = 4
    group_initial_rebalance_delay_ms: int = 0


class EmbeddedBroker:
    """A whole cluster of one node. Implements the process's Service protocol."""

    def __init__(self, settings: BrokerSettings, log: Logger) -> None:
        self._settings = settings
        self._log = log
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stack = AsyncExitStack()
        self.registry = CollectorRegistry()
        self.gateway: GatewayService
        self.partition: PartitionService
        self.controller: ControllerService

    @property
    def port(self) -> int:
        """The port that clients connect to; after `start`."""
        return self.gateway.port

    async def start(self) -> None:
        """Returns when clients can connect. Raises UsageError for operators' mistakes."""
        settings = self._settings
        _prepare(settings.data_dir)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        clock = SystemClock()
        self.controller = ControllerService(
            ControllerConfig(
                host="127.0.0.1",
                port=0,
                controller_id="embedded",
                data_dir=settings.data_dir / "controller",
                default_partitions=settings.default_partitions,
            ),
            clock=clock,
            registry=self.registry,
            log=self._log,
        )
        await self._start(self.controller)
        await self.controller.wait_active(ELECTION_TIMEOUT_S)
        (settings.data_dir / CONTROLLER_ADDRESS_FILE).write_text(self.controller.address)
        endpoints = self.controller.in_process_endpoints()
        self._stack.push_async_callback(endpoints.close)
        self.partition = PartitionService(
            PartitionConfig(
                log_dirs=(settings.data_dir / "log",),
                group_initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
                quota_address="",
            ),
            clock=clock,
            endpoints=endpoints,
            registry=self.registry,
            log=self._log.bind(service="partition"),
            embedded=True,
        )
        await self._start(self.partition)
        self.gateway = GatewayService(
            GatewayConfig(
                host=settings.host,
                port=settings.port,
                single_port=True,
                auto_create_topics=settings.auto_create_topics,
                default_partitions=settings.default_partitions,
            ),
            clock=clock,
            endpoints=endpoints,
            registry=self.registry,
            log=self._log.bind(service="gateway"),
            embedded=True,
        )
        self.gateway.add_local_node(self.partition.local_link(self.gateway.turn.defer))
        await self._start(self.gateway)
        await self._observe()

    async def stop(self) -> None:
        """Stops the services in reverse."""
        await self._stack.aclose()

    async def _start(
        self, service: ControllerService | PartitionService | GatewayService
    ) -> None:
        self._stack.push_async_callback(service.stop)
        await service.start()
        service.failed.add_done_callback(self._member_failed)

    async def _observe(self) -> None:
        monitor = LoopLagMonitor("embedded", self.registry, self._log)
        self._stack.push_async_callback(monitor.stop)
        await monitor.start()
        if self._settings.metrics_port is None:
            return
        readiness = Readiness()
        readiness.add("gateway", lambda: self.gateway.readiness.ready)
        metrics = MetricsServer(
            self.registry, readiness, host=self._settings.host, port=self._settings.metrics_port
        )
        self._stack.push_async_callback(metrics.stop)
        await metrics.start()

    def _member_failed(self, member: "asyncio.Future[None]") -> None:
        error = None if member.cancelled() else member.exception()
        if error is not None and not self.failed.done():
            self.failed.set_exception(error)


def _prepare(data_dir: Path) -> None:
    """Makes the directory. Raises UsageError if it cannot be written."""
    try:
        (data_dir / "log").mkdir(parents=True, exist_ok=True)
        probe = data_dir / ".writable"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise UsageError(f"cannot write to {data_dir}: {error.strerror}") from None
