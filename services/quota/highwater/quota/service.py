"""The quota service, put together: limits from the watch, reports and allocations over gRPC."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final, Protocol

from prometheus_client import CollectorRegistry

from highwater.api.quota.v1.quota_service_pb2_grpc import add_QuotaServiceServicer_to_server
from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.model.time import Clock
from highwater.quota.config import QuotaConfig
from highwater.quota.core.limits import Limits
from highwater.quota.core.policies.table import POLICIES
from highwater.quota.rpc.quota_servicer import QuotaServicer
from highwater.quota.sharing.ledger import Ledger
from highwater.quota.sharing.metrics import QuotaMetrics
from highwater.rpc.grpcio_guard import GuardInterceptor, server_credentials
from highwater.rpc.guard import IDLE_MS_MAX
from highwater.rpc.inner import Inner
from highwater.runtime.grpc_server import GrpcServer
from highwater.runtime.health import GrpcHealth, Readiness
from highwater.runtime.logging import Logger
from highwater.runtime.loop_lag import LoopLagMonitor
from highwater.runtime.metrics import MetricsServer
from highwater.runtime.tasks import TaskOwner

SERVICE_NAME: Final = "highwater.api.quota.v1.QuotaService"

_CANCEL_TIMEOUT_S: Final = 1.0


class Watch(Protocol):
    """The part of `highwater.metadata.watch.ClusterWatch` that is needed; the caller runs it."""

    @property
    def image(self) -> ClusterImage | None:
        """The current image, None before the first."""
        ...

    def subscribe(
        self, subscriber: Callable[[ClusterImage, ClusterDelta | None], None]
    ) -> Callable[[], None]:
        """Calls the subscriber for every image; returns a function that ends the subscription."""
        ...


class QuotaService:
    """One quota service. `servicer` serves in-process callers also without a gRPC server.

    Build it on the loop that it runs on. The caller starts and stops `watch`.
    """

    def __init__(
        self,
        config: QuotaConfig,
        *,
        clock: Clock,
        watch: Watch,
        registry: CollectorRegistry,
        log: Logger,
        serve_grpc: bool = True,
    ) -> None:
        self._config = config
        self._clock = clock
        self._watch = watch
        self._registry = registry
        self._log = log
        self._loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[None] = self._loop.create_future()
        self.readiness = Readiness()
        self.readiness.add("metadata", lambda: watch.image is not None)
        self.ledger = Ledger(
            POLICIES[config.policy], tick_ms=config.tick_ms, wall_ms=clock.wall_ms()
        )
        self.servicer = QuotaServicer(
            self.ledger,
            QuotaMetrics(registry, self.ledger),
            clock,
            log,
            tick_ms=config.tick_ms,
        )
        self._inner = Inner(config.inner, log)
        self.grpc = self._make_server() if serve_grpc else None
        self._health = GrpcHealth((SERVICE_NAME,))
        self._serving = False
        self._tasks = TaskOwner(self._task_failed)
        self._increases: asyncio.TimerHandle | None = None
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Returns when it listens; ready (see `readiness`) once the watch has an image."""
        stack = self._stack
        self._inner.watch_certificates(stack, self._registry, "quota")
        if self._config.metrics.port is not None:
            metrics = MetricsServer(
                self._registry,
                self.readiness,
                host=self._config.metrics.host,
                port=self._config.metrics.port,
            )
            stack.push_async_callback(metrics.stop)
            await metrics.start()
        if self.grpc is not None:
            monitor = LoopLagMonitor("quota", self._registry, self._log)
            stack.push_async_callback(monitor.stop)
            await monitor.start()
            await self._serve(self.grpc)
        stack.push_async_callback(self._tasks.close, timeout_s=_CANCEL_TIMEOUT_S)
        stack.callback(self._watch.subscribe(self._image_changed))
        stack.callback(self._cancel_increases)

    async def stop(self) -> None:
        """Drains and closes; nodes keep their shares until their leases end."""
        await self._health.set_serving(serving=False)
        await self._stack.aclose()

    def _task_failed(self, name: str, error: BaseException) -> None:
        self._log.error("task_failed", task=name, exc_info=error)
        if not self.failed.done():
            self.failed.set_exception(error)

    def _make_server(self) -> GrpcServer:
        self._inner.listens(self._config.host)
        guard = self._inner.guard()
        return GrpcServer(
            self._config.host,
            self._config.port,
            interceptors=() if guard is None else (GuardInterceptor(guard),),
            idle_ms_max=None if guard is None else IDLE_MS_MAX,
            credentials=server_credentials(self._inner.server_tls),
        )

    async def _serve(self, server: GrpcServer) -> None:
        await self._health.set_serving(serving=False)
        server.register(self._health.add_to_server)
        server.register(
            lambda inner: add_QuotaServiceServicer_to_server(self.servicer, inner)  # type: ignore[no-untyped-call]
        )
        self._stack.push_async_callback(server.stop, drain_s=self._config.drain_s)
        await server.start()
        self._log.info("listening", address=server.address)

    def _image_changed(self, image: ClusterImage, _delta: ClusterDelta | None) -> None:
        if not self._serving:
            self._serving = True
            self._tasks.start(self._health.set_serving(serving=True), name="quota-serving")
        if not self.ledger.set_limits(Limits.of(image), self._clock.monotonic_ms()):
            return
        self._log.info(
            "limits_changed", revision=image.revision, instances=len(self.ledger.limits.instances)
        )
        self.servicer.notify()
        # Increases wait for a tick; send them right after it, without waiting for the next report.
        self._cancel_increases()
        self._increases = self._loop.call_later(self._config.tick_ms / 1000, self.servicer.notify)

    def _cancel_increases(self) -> None:
        if self._increases is not None:
            self._increases.cancel()
            self._increases = None
