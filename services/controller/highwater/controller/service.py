"""The controller as a service: store, election, and the servicers of the present term."""

import asyncio
import base64
import contextlib
import random
import secrets
import uuid
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry

from highwater.api.controller.v1 import controller_service_pb2_grpc as rpc
from highwater.controller.active.active import ActiveController, ControllerRules
from highwater.controller.active.config_rules import KafkaConfigRules
from highwater.controller.active.leadership import Leadership
from highwater.controller.active.store_past import StorePast
from highwater.controller.config import ControllerConfig, EtcdSettings
from highwater.controller.core.config_rules import ConfigRules
from highwater.controller.core.create_topics import TopicDefaults
from highwater.controller.image.writer import Fence
from highwater.controller.members.members import SessionRules
from highwater.controller.metrics.controller import ControllerMetrics
from highwater.controller.rpc.controller_servicer import ControllerServicer
from highwater.controller.rpc.metadata_servicer import MetadataServicer
from highwater.controller.store import factory
from highwater.controller.store.etcd_security import EtcdSecurity
from highwater.controller.store.port import MetadataStore
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.model.ids import NO_TOPIC_ID, TopicId
from highwater.model.scram import LOGIN_SECRET_BYTES
from highwater.model.time import Clock
from highwater.rpc.grpcio_guard import GuardInterceptor, server_credentials
from highwater.rpc.guard import IDLE_MS_MAX
from highwater.rpc.inner import Inner
from highwater.runtime.clock import SystemClock
from highwater.runtime.grpc_server import GrpcServer
from highwater.runtime.health import GrpcHealth, Readiness
from highwater.runtime.logging import Logger, silent_logger
from highwater.runtime.metrics import MetricsServer
from highwater.runtime.slices import Slices
from highwater.runtime.tasks import TaskOwner

IN_PROCESS_ADDRESS: Final = "in-process"
_STOP_TIMEOUT_S: Final = 5.0

_SERVICES: Final = (
    "highwater.api.controller.v1.ControllerService",
    "highwater.api.controller.v1.MetadataService",
)


class ControllerService:
    """One controller replica: standby or active. Built on the loop that runs it.

    With `serve_grpc=False` (embedded mode) it has no server, and `in_process_endpoints` is the
    only way to it.
    """

    def __init__(
        self,
        config: ControllerConfig,
        *,
        clock: Clock | None = None,
        store: MetadataStore | None = None,
        config_rules: ConfigRules | None = None,
        registry: CollectorRegistry | None = None,
        log: Logger | None = None,
        serve_grpc: bool = True,
    ) -> None:
        """`store` and `config_rules` replace the ones that the config chooses."""
        self._config = config
        self._clock = clock or SystemClock()
        self._slices = Slices()
        self._log = (log or silent_logger()).bind(
            service="controller", controller=config.controller_id
        )
        self._inner = Inner(config.inner, self._log)
        self._store = store or open_store(config)
        self._past = StorePast(
            self._store, accepted_revision=config.accept_store_loss, log=self._log
        )
        self._rules = _rules(config, config_rules or KafkaConfigRules())
        self._registry = registry or CollectorRegistry()
        self._serve_grpc = serve_grpc
        self._active: ActiveController | None = None
        self._elected = asyncio.Event()
        self._leadership: Leadership | None = None
        self._server: GrpcServer | None = None
        self._stack = contextlib.AsyncExitStack()
        self._tasks = TaskOwner(self._on_failure)
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Gets an exception when the controller cannot continue."""
        self.controller_servicer = ControllerServicer(self._present, self._active_address)
        self.metadata_servicer = MetadataServicer(self._present, self._active_address, self._slices)
        self.readiness = Readiness()
        self.readiness.add("election", lambda: bool(self._active_address()))
        self._metrics = ControllerMetrics(
            self._registry, lambda: self._active, refuses=self._refuses_to_lead
        )

    @property
    def active(self) -> ActiveController | None:
        """The present term, None on a standby."""
        return self._active

    @property
    def address(self) -> str:
        """host:port of the gRPC server, or "in-process"; after `start`."""
        if self._server is None:
            return IN_PROCESS_ADDRESS
        return self._config.advertised_address or self._server.address

    async def start(self) -> None:
        """Opens the store and the server and stands for election. Raises UsageError."""
        await self._store.start()
        self._stack.push_async_callback(self._store.close)
        self._inner.watch_certificates(
            self._stack, self._registry, "controller", lambda: _etcd_certificates(self._config)
        )
        if self._serve_grpc:
            await self._start_server()
        if self._config.metrics.port is not None:
            metrics = MetricsServer(
                self._registry,
                self.readiness,
                host=self._config.metrics.host,
                port=self._config.metrics.port,
            )
            await metrics.start()
            self._stack.push_async_callback(metrics.stop)
        self._leadership = Leadership(
            self._store,
            candidate=self._config.controller_id,
            address=self.address,
            lease_ttl_ms=self._config.lease_ttl_ms,
            clock=self._clock,
            log=self._log,
            verify=self._past.verify,
        )
        self._tasks.start(self._leadership.run(self._serve), name="leadership")

    async def stop(self) -> None:
        """Resigns, so that a standby can follow at once, and closes everything."""
        await self._tasks.close(timeout_s=_STOP_TIMEOUT_S)
        await self._stack.aclose()

    async def wait_active(self, timeout_s: float) -> ActiveController:
        """This controller's term, as soon as it leads. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            while self._active is None:
                await self._elected.wait()
        return self._active

    def in_process_endpoints(self) -> ControllerEndpoints:
        """Access to this controller for clients and watches in the same process."""
        return ControllerEndpoints.in_process(self.controller_servicer, self.metadata_servicer)

    async def _start_server(self) -> None:
        self._inner.listens(self._config.host)
        guard = self._inner.guard()
        server = GrpcServer(
            self._config.host,
            self._config.port,
            interceptors=() if guard is None else (GuardInterceptor(guard),),
            idle_ms_max=None if guard is None else IDLE_MS_MAX,
            credentials=server_credentials(self._inner.server_tls),
        )
        server.register(
            lambda s: rpc.add_ControllerServiceServicer_to_server(self.controller_servicer, s)  # type: ignore[no-untyped-call]
        )
        server.register(
            lambda s: rpc.add_MetadataServiceServicer_to_server(self.metadata_servicer, s)  # type: ignore[no-untyped-call]
        )
        health = GrpcHealth(_SERVICES)
        server.register(health.add_to_server)
        await server.start()
        self._server = server
        await health.set_serving(serving=True)
        self._stack.push_async_callback(server.stop, drain_s=self._config.drain_ms / 1000)

    async def _serve(self, fence: Fence) -> None:
        """One term of office, until it is lost."""
        active = await ActiveController.open(
            self._store, fence, self._rules, self._past, self._clock, self._slices, self._log
        )
        self._active = active
        self._elected.set()
        try:
            await active.run()
        finally:
            self._active = None
            self._elected.clear()

    def _present(self) -> ActiveController | None:
        """The term, unless this process slept past its lease and has not noticed yet."""
        if self._leadership is None or not self._leadership.holds():
            return None
        return self._active

    def _refuses_to_lead(self) -> bool:
        return self._leadership is not None and self._leadership.refuses

    def _active_address(self) -> str:
        return self._leadership.active_address if self._leadership is not None else ""

    def _on_failure(self, name: str, error: BaseException) -> None:
        self._log.error("task_failed", task=name, exc_info=error)
        if not self.failed.done():
            self.failed.set_exception(error)


def open_store(config: ControllerConfig) -> MetadataStore:
    """The configured driver, not started yet."""
    if config.store == "memory":
        return factory.memory_store()
    if config.store == "sqlite":
        return factory.sqlite_store(config.data_dir)
    return factory.etcd_store(
        config.etcd.endpoints,
        prefix=config.etcd.prefix,
        client_id=config.controller_id,
        call_timeout_ms=config.etcd.call_timeout_ms,
        security=_security(config.etcd),
    )


def _etcd_certificates(config: ControllerConfig) -> dict[str, bytes]:
    return _security(config.etcd).certificates if config.store == "etcd" else {}


def _security(etcd: EtcdSettings) -> EtcdSecurity:
    return EtcdSecurity(
        ca_file=etcd.tls_ca_file,
        cert_file=etcd.tls_cert_file,
        key_file=etcd.tls_key_file,
        user=etcd.user,
        password=None if etcd.password is None else etcd.password.get_secret_value(),
    )


def _rules(config: ControllerConfig, config_rules: ConfigRules) -> ControllerRules:
    return ControllerRules(
        topics=TopicDefaults(
            partitions=config.default_partitions,
            replication_factor=config.default_replication_factor,
            internal_partitions=config.internal_partitions,
            internal_replication_factor=config.internal_replication_factor,
        ),
        leader_imbalance_check_interval_ms=config.leader_imbalance_check_interval_ms,
        # The history of the other stores is in memory and has a limit.
        compact_after_ms=config.etcd.compact_after_ms if config.store == "etcd" else 0,
        sessions=SessionRules(
            session_timeout_ms=config.session_timeout_ms,
            stream_grace_ms=config.stream_grace_ms,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
        ),
        configs=config_rules,
        random_below=random.randrange,
        new_topic_id=new_topic_id,
        new_login_secret=partial(secrets.token_bytes, LOGIN_SECRET_BYTES),
        new_cluster_id=lambda: base64.urlsafe_b64encode(new_topic_id()).decode().rstrip("="),
    )


def new_topic_id() -> TopicId:
    """A random UUID whose text does not begin with a dash, as Kafka's `Uuid.randomUuid`."""
    while True:
        topic_id = TopicId(uuid.uuid4().bytes)
        if topic_id != NO_TOPIC_ID and not base64.urlsafe_b64encode(topic_id).startswith(b"-"):
            return topic_id
