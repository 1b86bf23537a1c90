"""The balancer, put together: listening ports, relays, health checks, metrics.

It does not look at clients' bytes. Each port of the block leads to the same port of some healthy
gateway that listens there; only the gateways know what a port stands for (bootstrap, or a node).
With `controllers` it watches the cluster, and publishes the ports of its instances, too.
"""

import asyncio
import errno
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

from prometheus_client import CollectorRegistry, Gauge

from highwater.balancer.config import BalancerConfig
from highwater.balancer.core.pool import Pool
from highwater.balancer.sockets.health import HealthChecks
from highwater.balancer.sockets.instance_ports import InstancePorts
from highwater.balancer.sockets.relay import Relay
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.metadata.watch import ClusterWatch
from highwater.model.errors import BindError, PortInUseError
from highwater.rpc.inner import Inner
from highwater.runtime.health import Readiness
from highwater.runtime.listening import start_listening
from highwater.runtime.log_limit import LogLimit
from highwater.runtime.logging import Logger
from highwater.runtime.metrics import MetricsServer
from highwater.runtime.proxy_protocol import tcp_header
from highwater.runtime.tasks import TaskOwner

BACKLOG: Final = 1024
ATTEMPTS_MAX: Final = 3
"""Gateways that are tried for one client, not counting those that refuse the port at once."""
SWEEPS_PER_IDLE_TIME: Final = 10
CLOSE_S: Final = 2.0


class BalancerService:
    """One balancer, built on the loop that it runs on."""

    def __init__(self, config: BalancerConfig, *, registry: CollectorRegistry, log: Logger) -> None:
        self._config = config
        self._registry = registry
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._lines = LogLimit(lambda: int(self._loop.time() * 1000))
        self.failed: asyncio.Future[None] = self._loop.create_future()
        self.pool = Pool()
        self.relays: set[Relay] = set()
        self.refused = 0
        self.readiness = Readiness()
        self.readiness.add("gateways", lambda: bool(self.pool.up))
        self._servers: list[asyncio.Server] = []
        self._sweeper: asyncio.TimerHandle | None = None
        self.instance_ports = InstancePorts(config.listener, self._listen, log=log)
        # One task for each connection that is being made, the health checks, and the instances' ports.
        self._tasks = TaskOwner(self._task_failed, tasks_max=config.connections_max + 2)
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Returns when it listens; ready (see `readiness`) once a gateway is healthy."""
        config = self._config
        stack = self._stack
        if config.metrics.port is not None:
            metrics = MetricsServer(
                self._registry,
                self.readiness,
                host=config.metrics.host,
                port=config.metrics.port,
            )
            stack.push_async_callback(metrics.stop)
            await metrics.start()
        self.register_metrics()
        stack.push_async_callback(self._tasks.close, timeout_s=CLOSE_S)
        checks = HealthChecks(
            self.pool,
            gateways=config.gateways,
            port=config.gateway_port_first,
            proxy_protocol=config.proxy_protocol,
            tls=config.gateway_tls,
            every_s=config.check_s,
            timeout_s=config.connect_s,
            log=self._log,
        )
        # Check the gateways once first, so that the first clients are not refused.
        await checks.check_once()
        self._tasks.start(checks.run(), name="health-checks")
        stack.push_async_callback(self._close_connections)
        for offset, port in enumerate(config.block):
            self._servers.append(await self._listen(port, config.gateway_port_first + offset))
        if config.controllers:
            self._publish_instances()
        self._sweep()
        self._log.info("listening", host=config.host, port=config.port, ports=len(config.block))

    async def stop(self) -> None:
        """Stops listening and closes every connection, after writing what was read."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for server in self._servers:
            server.close()
        self.instance_ports.close()
        await self._stack.aclose()

    def register_metrics(self) -> None:
        """Called by `start`; also works for a balancer that does not listen."""
        gauges: list[tuple[str, str, Callable[[], float]]] = [
            ("connections", "Client connections.", lambda: len(self.relays)),
            (
                "refused_connections",
                "Connections above the limit, or without a healthy gateway.",
                lambda: self.refused,
            ),
            (
                "gateways_up",
                "Gateways that are healthy and take clients.",
                lambda: len(self.pool.up),
            ),
            ("gateways", "Gateways that its settings name.", lambda: len(self.pool.addresses)),
            (
                "instance_ports",
                "Ports of instances that are open.",
                lambda: len(self.instance_ports.ports),
            ),
            (
                "instance_ports_missing",
                "Ports of instances that could not be opened; they are tried again.",
                lambda: self.instance_ports.missing,
            ),
        ]
        for name, text, value in gauges:
            gauge = Gauge(f"highwater_balancer_{name}", text, registry=self._registry)
            gauge.set_function(value)

    def _publish_instances(self) -> None:
        inner = Inner(self._config.inner, self._log)
        inner.watch_certificates(self._stack, self._registry, "balancer")
        endpoints = ControllerEndpoints(self._config.controllers, inner=inner)
        self._stack.push_async_callback(endpoints.close)
        watch = ClusterWatch(endpoints, log=self._log)
        self._stack.push_async_callback(watch.stop)
        watch.subscribe(self.instance_ports.follow)
        watch.failed.add_done_callback(self._watch_failed)
        watch.start()
        self._tasks.start(self.instance_ports.run(), name="instance-ports")

    async def _listen(self, port: int, gateway_port: int) -> asyncio.Server:
        """Listens on a port that leads to that port of the gateways. Raises PortInUseError, BindError."""
        host = self._config.host
        try:
            server = await self._loop.create_server(
                partial(self._accept, gateway_port),
                host,
                port,
                backlog=BACKLOG,
                reuse_address=True,
                start_serving=False,
            )
            await start_listening(server, f"{host}:{port}")
        except OSError as error:
            # uvloop changes the message of the error.
            if error.errno == errno.EADDRINUSE or "in use" in str(error):
                raise PortInUseError(f"{host}:{port}") from None
            raise BindError(f"{host}:{port}", str(error)) from None
        return server

    # ---- connections ----

    def _accept(self, port: int) -> asyncio.BaseProtocol:
        if len(self.relays) >= self._config.connections_max:
            self.refused += 1
            return _Refusal()
        relay = Relay(connect=partial(self._connect, port), start=self._start, relays=self.relays)
        return relay.client

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.start(work, name="connect")

    async def _connect(self, port: int, relay: Relay) -> None:
        """Finds a gateway that takes the client at that port; closes the client if none does."""
        header = self._header(relay)
        if header is None:
            relay.abort()
            return
        tried: list[str] = []
        problem = "no gateway is healthy"
        failures = 0
        while failures < ATTEMPTS_MAX and not relay.is_closed():
            address = self.pool.choose(port, but=tried)
            if address is None:
                break
            tried.append(address)
            try:
                async with asyncio.timeout(self._config.connect_s):
                    await self._loop.create_connection(lambda: relay.gateway, address, port)
            except ConnectionRefusedError as error:
                problem = str(error)
                self.pool.refused(address, port)
                continue
            except (OSError, TimeoutError) as error:
                problem = str(error) or "no connection in time"
                failures += 1
                continue
            if relay.is_closed():
                relay.abort()  # The client has disconnected: close the new connection, too.
                return
            gateway = self.pool.opened(address)
            relay.on_end = partial(self.pool.closed, gateway)
            relay.connected(header)
            return
        if not relay.is_closed():
            self.refused += 1
            self._lines.write(
                self._log.warning, "client_refused", port=port, tried=tried, error=problem
            )
            relay.abort()

    def _header(self, relay: Relay) -> bytes | None:
        """The bytes sent to the gateway first; None if the client has reset the connection already.

        Call it at once: a socket that was reset does not know its peer's address any more.
        """
        if not self._config.proxy_protocol:
            return b""
        transport = relay.client.transport
        source = transport.get_extra_info("peername")
        destination = transport.get_extra_info("sockname")
        if source is None or destination is None:
            return None
        return tcp_header(source[:2], destination[:2])

    def _sweep(self) -> None:
        """Closes connections without traffic for the idle time."""
        pause_s = self._config.idle_s_max / SWEEPS_PER_IDLE_TIME
        self._sweeper = self._loop.call_later(pause_s, self._sweep)
        for relay in list(self.relays):
            if relay.is_idle_for(SWEEPS_PER_IDLE_TIME):
                relay.abort()

    async def _close_connections(self) -> None:
        for relay in list(self.relays):
            relay.close()
        deadline = self._loop.time() + CLOSE_S
        while self.relays and self._loop.time() < deadline:  # noqa: ASYNC110 - once per stop.
            await asyncio.sleep(0.01)
        for relay in list(self.relays):
            relay.abort()

    def _watch_failed(self, watch: "asyncio.Future[None]") -> None:
        error = None if watch.cancelled() else watch.exception()
        if error is not None:
            self._task_failed("watch", error)

    def _task_failed(self, name: str, error: BaseException) -> None:
        self._log.error("task_failed", task=name, exc_info=error)
        if not self.failed.done():
            self.failed.set_exception(error)


class _Refusal(asyncio.Protocol):
    """A connection above the limit: closed before a byte is read."""

    def connection_made(self, transport: Any) -> None:
        """Closes."""
        transport.abort()
