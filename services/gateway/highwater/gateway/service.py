"""The gateway, put together: listener, sessions, routes, links and handlers.

Start: register with the controller, wait for the first image, then listen. Each image is applied
in this order: links, routes over them, ports for new nodes.
"""

import asyncio
import contextlib
import random
import secrets
import socket
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Final

from prometheus_client import CollectorRegistry

from highwater.api.controller.v1 import cluster_pb2
from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.gateway.clients.node_link import GrpcNodeLink
from highwater.gateway.config import GatewayConfig
from highwater.gateway.core.budget import MemoryBudget
from highwater.gateway.core.fetch_session_cache import FetchSessionCache
from highwater.gateway.core.meters import RequestMeters
from highwater.gateway.core.shared_input import SharedInput
from highwater.gateway.core.standstill import Standstill
from highwater.gateway.core.turn import Turn
from highwater.gateway.data_plane.fetch_path import FetchPath
from highwater.gateway.data_plane.fetch_sessions import FetchSessions, end_sets
from highwater.gateway.data_plane.follow_image import ImageFollower
from highwater.gateway.data_plane.held_produce import HeldProduce
from highwater.gateway.data_plane.old_fetch import OldFetchPath
from highwater.gateway.data_plane.old_produce import OldProducePath
from highwater.gateway.data_plane.produce_path import ProducePath
from highwater.gateway.handling.backend import GatewayBackend, handler_settings
from highwater.gateway.login.assembly import make_authorizer, make_gate
from highwater.gateway.login.gate import LoginGate
from highwater.gateway.login.topic_networks import TopicNetworks
from highwater.gateway.metrics.gateway import PREFIX, GatewayCollector
from highwater.gateway.metrics.instances import InstanceCollector
from highwater.gateway.metrics.quotas import QuotaCollector
from highwater.gateway.metrics.readings import gateway_readings
from highwater.gateway.quota.client_quotas import ClientQuotas
from highwater.gateway.quota.core.rates import QuotaRates
from highwater.gateway.quota.core.windowed_rate import QuotaWindows
from highwater.gateway.quota.limited_requests import LimitedRequests
from highwater.gateway.requests.handler_loading import load_all_handlers
from highwater.gateway.requests.requests import FetchFramePath, FramePath, Requests
from highwater.gateway.routing.departure import Departure
from highwater.gateway.routing.node_links import MemberLink, NodeLinks, OpenLink
from highwater.gateway.routing.table import PartitionRoute, RoutingTable
from highwater.gateway.sockets.addresses import listen_addresses
from highwater.gateway.sockets.instance_ports import BlockKey
from highwater.gateway.sockets.listener import Listener
from highwater.gateway.sockets.port_blocks import PortBlocks
from highwater.gateway.sockets.sender_threads import SenderThreads
from highwater.gateway.sockets.tls_shared import shared_tls
from highwater.hop.channels import hop_channels
from highwater.hop.metrics import HopCollector
from highwater.hop.ports import NodeLink
from highwater.kafka.error_codes import ErrorCode
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.metadata.heartbeat import HeartbeatLoop, Heartbeats, InLoopHeartbeats
from highwater.metadata.watch import ClusterWatch, Watcher
from highwater.model.authorization import Authorizer
from highwater.model.cluster import ClusterDelta, ClusterImage, NodeState
from highwater.model.errors import HighwaterError, UsageError
from highwater.model.ids import NO_NODE, InstanceId, TopicId
from highwater.model.listener_names import DEFAULT_LISTENER
from highwater.model.scram import LOGIN_SECRET_BYTES
from highwater.model.steps import Steps
from highwater.model.time import Clock
from highwater.rpc.inner import Inner
from highwater.runtime.clock import boot_ms
from highwater.runtime.health import Readiness
from highwater.runtime.logging import Logger
from highwater.runtime.loop_lag import LoopLagMonitor
from highwater.runtime.metrics import serve_metrics
from highwater.runtime.tasks import TaskOwner

FIRST_IMAGE_TIMEOUT_S: Final = 30.0
HELD_LOOK_S: Final = 0.01
EXPIRE_S: Final = 0.25
"""How often the deadlines of waiting appends are checked."""


class GatewayService:
    """One gateway, built on the loop that it runs on. The caller closes `endpoints`."""

    def __init__(
        self,
        config: GatewayConfig,
        *,
        clock: Clock,
        endpoints: ControllerEndpoints,
        registry: CollectorRegistry,
        log: Logger,
        embedded: bool = False,
        observed: bool = False,
    ) -> None:
        """`embedded`: with the whole cluster in this process, so heartbeats run in the loop.

        `observed`: a process of several services serves the metrics and watches the loop.
        """
        self._config = config
        self._clock = clock
        self._endpoints = endpoints
        self._registry = registry
        self._log = log
        self._embedded = embedded
        self._observed = embedded or observed
        loop = asyncio.get_running_loop()
        self._loop = loop
        self.failed: asyncio.Future[None] = loop.create_future()
        self.turn = Turn(loop.call_soon, time.monotonic_ns)
        self._inner = Inner(config.inner, log)
        self._channels = hop_channels(config.hop, self._task_failed, self._inner)
        self.links = NodeLinks(self._open_link, self._task_failed)
        self.held = HeldProduce(
            config.held_produce_bytes_max,
            route_of=self._route_of,
            is_lost=self.links.is_lost,
            call_later=loop.call_later,
        )
        # An embedded gateway's node leads every partition and stops together with the gateway.
        self.routing = RoutingTable(self.links.link_to, None if embedded else self.held)
        self.meters = RequestMeters()
        self._follower = ImageFollower(self.links, self.routing, None if embedded else self.held)
        self.controller = ControllerClient(endpoints)
        self.watch = ClusterWatch(endpoints, log=log)
        self.readiness = Readiness()
        self.readiness.add("metadata", lambda: self.routing.image is not None)
        self._tasks = TaskOwner(self._task_failed, tasks_max=200_000)
        self._heartbeats: Heartbeats | None = None
        self._departure = Departure(log)
        self._listener: Listener | None = None
        self._topic_networks = TopicNetworks()
        self._login_secret = secrets.token_bytes(LOGIN_SECRET_BYTES)
        self._node_id = NO_NODE
        self._ports: PortBlocks
        self._budget = MemoryBudget(config.memory_budget_bytes)
        self._fetch_sessions = FetchSessionCache[NodeLink](
            slots=config.fetch_sessions_max,
            eviction_ms=int(config.fetch_session_eviction_s * 1000),
            budget=self._budget,
            new_id=random.randint,
            ended=end_sets,
        )
        windows = QuotaWindows(
            count=config.quota_window_num, size_ms=config.quota_window_size_s * 1000
        )
        self._quotas = ClientQuotas(QuotaRates(windows, clock.monotonic_ms))
        self._stack = AsyncExitStack()
        self._registering = False
        self._expirer: asyncio.TimerHandle

    @property
    def port(self) -> int:
        """The bootstrap port of the default listener; known after `start`."""
        return self._ports.port(DEFAULT_LISTENER)

    @property
    def connections(self) -> int:
        """The number of open client connections."""
        return 0 if self._listener is None else len(self._listener.connections)

    def add_local_node(self, link: NodeLink) -> None:
        """Adds the only partition node, in this process; to be called before `start`."""
        self._node_id = link.node_id
        self.links.add_local(link)

    def add_member(self, link: MemberLink) -> None:
        """Adds a node in this process that is one of several; to be called before `start`.

        Its groups of appends must belong to `held`.
        """
        self._node_id = link.node_id
        self.links.add_member(link)

    async def start(self) -> None:
        """Returns when clients can connect. Raises UsageError for operators' mistakes."""
        config = self._config
        stack = self._stack
        if not self._observed:
            await self._start_observing()
        stack.push_async_callback(self._tasks.close, timeout_s=2)
        stack.push_async_callback(self.links.close)
        stack.push_async_callback(self.watch.stop)
        self._listener = self._make_listener()
        stack.push_async_callback(self._listener.close, drain_s=config.drain_s)
        stack.callback(self.held.close)
        self._ports = PortBlocks(
            self._listener,
            {name: (one.host, one.port) for name, one in config.all_listeners.items()},
            tasks=self._tasks,
            node_id=self._node_id,
            single_port=config.single_port,
            bootstrap_wait_s=config.bootstrap_wait_s,
            instance_shift=config.instance_port_shift,
            drain_s=config.drain_s,
            on_error=self._port_not_opened,
            on_instance_error=self._instance_port_not_opened,
        )
        stack.callback(self._ports.close)
        # Before the registration, which tells the controller the numbers.
        await self._ports.reserve()
        await self._register()
        self.watch.subscribe(self._image_changed)
        self.watch.failed.add_done_callback(self._watch_failed)
        self.watch.start()
        try:
            await self.watch.wait_for_revision(1, FIRST_IMAGE_TIMEOUT_S)
        except TimeoutError:
            raise HighwaterError("the controller sent no metadata in time") from None
        assert self.routing.image is not None  # Requests need it.
        await self._ports.open(self.routing.image, self._gateway_state().gateway_id)
        self._expirer = self._loop.call_later(EXPIRE_S, self._expire)
        stack.callback(self._stop_expiring)
        self._tasks.start(load_all_handlers(asyncio.sleep), name="load-handlers")
        for name, one in config.all_listeners.items():
            self._log.info("listening", listener=name, host=one.host, port=self._ports.port(name))

    async def follow_leaders(self, revision: int, timeout_s: float) -> None:
        """Returns when the image of that revision has been followed, and nothing is held any more for
        its leaders; or after `timeout_s`.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.watch.wait_for_revision(revision, timeout_s)
                while self.held.nbytes:  # noqa: ASYNC110 - once per stop.
                    await asyncio.sleep(HELD_LOOK_S)

    async def stop(self) -> None:
        """Sends clients elsewhere, stops accepting, lets requests end, closes."""
        if self._heartbeats is not None:
            # Clients of a gateway with a node follow the node's leaders, which have gone by now.
            if self._node_id == NO_NODE:
                self._ports.close()  # Images in which it has no block would have it take others' ports.
                await self._departure.leave(self._heartbeats)
            await self._heartbeats.stop()
        await self._stack.aclose()

    # ---- parts ----

    async def _start_observing(self) -> None:
        await serve_metrics(self._stack, self._config.metrics, self._registry, self.readiness)
        monitor = LoopLagMonitor("gateway", self._registry, self._log)
        self._stack.push_async_callback(monitor.stop)
        await monitor.start()

    def _make_listener(self) -> Listener:
        config = self._config
        pool = SenderThreads(config.sender_threads, self._loop.call_soon_threadsafe)
        self._stack.callback(pool.stop)
        backend = GatewayBackend(
            routing=self.routing,
            links=self.links,
            controller=self.controller,
            watch=self.watch,
            settings=handler_settings(config),
            authorizer=make_authorizer(config, lambda: self.routing.image, self._topic_networks),
            clock=self._clock,
            log=self._log,
        )
        produce, fetch = self._make_paths(backend.authorizer)
        requests = Requests(
            produce=produce,
            fetch=fetch,
            backend=backend,
            quotas=self._quotas,
            meters=self.meters,
            tasks=self._tasks,
            log=self._log,
        )
        limited = LimitedRequests(requests, fetch, self.turn.clock_ns)
        self._quotas.handle_by(requests, limited)
        gate = self._make_gate(requests)
        listener = Listener(
            addresses=listen_addresses(config),
            shared=SharedInput(
                turn=self.turn,
                budget=self._budget,
                meters=self.meters,
                frame_bytes_max=config.request_bytes_max,
                in_flight_bytes_max=config.in_flight_bytes_max,
                fetches_max=config.fetches_max,
                standstill=Standstill(boot_ms),
            ),
            handler=requests,
            gate=gate,
            quotas=self._quotas,
            routing=self.routing,
            pool=pool,
            tls=shared_tls(self._stack, self._loop, config.sender_threads, self._budget),
            log=self._log,
            connections_max=config.connections_max,
            idle_s_max=config.idle_s_max,
            frame_s_max=config.frame_s_max,
        )
        self._register_metrics(listener, gate)
        return listener

    def _register_metrics(self, listener: Listener, gate: LoginGate) -> None:
        readings = gateway_readings(
            listener, gate, self._budget, self._fetch_sessions, self.held, self.links
        )
        self._registry.register(GatewayCollector(self.meters, readings))
        arrivals = listener.newcomers.arrivals
        self._registry.register(QuotaCollector(self._quotas.rates, lambda: arrivals.throttled))
        self._registry.register(InstanceCollector(listener.doors, self._missing_ports))
        self._inner.watch_certificates(
            self._stack, self._registry, "gateway", lambda: listener.certificates
        )
        self._registry.register(HopCollector(PREFIX, {"client": self._channels.statistics}))

    def _make_paths(self, authorizer: Authorizer) -> tuple[FramePath, FetchFramePath]:
        """The paths of Produce and Fetch; those that know old formats have threads."""
        produce = ProducePath(authorizer)
        fetch = FetchPath(authorizer, FetchSessions(authorizer, self._fetch_sessions))
        if not self._config.old_message_formats:
            return produce, fetch
        old_produce = OldProducePath(produce, authorizer, self._budget)
        old_fetch = OldFetchPath(fetch, self._budget)
        self._stack.callback(old_produce.close)
        self._stack.callback(old_fetch.close)
        return old_produce, old_fetch

    def _make_gate(self, requests: Requests) -> LoginGate:
        # One thread hashes the passwords of PLAIN, which bounds what logins take.
        hashing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="login")
        self._stack.callback(hashing.shutdown, cancel_futures=True)
        reading = ThreadPoolExecutor(max_workers=1, thread_name_prefix="login-keys")
        self._stack.callback(reading.shutdown, wait=False, cancel_futures=True)
        return make_gate(
            self._config,
            requests,
            lambda: self.routing.image,
            loop=self._loop,
            hashing=hashing,
            reading=reading,
            clock=self._clock,
            log=self._log,
            logged_in=self._quotas.settle,
            login_failed=self._login_failed,
            nobody_secret=lambda: self._login_secret,
        )

    def _login_failed(self, instance: InstanceId) -> None:
        assert self._listener is not None  # It has accepted the connection.
        self._listener.doors.of(instance).failed_logins += 1

    def _open_link(self, node: NodeState) -> OpenLink:
        link = GrpcNodeLink(
            node,
            clock=self._clock,
            schedule=self.turn.defer,
            on_failure=self._task_failed,
            budget=self._budget,
            append_owner=self.held,
            channels=self._channels,
            transport=self._config.hop.transport,
        )
        link.start()
        return link

    # ---- metadata ----

    def _gateway_state(self) -> cluster_pb2.GatewayState:
        config = self._config
        machine = socket.gethostname()
        addresses = {
            name: one.address(self._ports.port(name), machine)
            for name, one in config.all_listeners.items()
        }
        host, port = addresses.pop(DEFAULT_LISTENER)
        # Gateways behind one balancer share host and port, so their names must differ.
        own_host = machine if config.advertised_host else config.host
        return cluster_pb2.GatewayState(
            gateway_id=config.gateway_id or f"{own_host}:{self._ports.own_port}",
            host=host,
            port=port,
            single_port=config.single_port,
            rack=config.rack or machine,
            node_id=None if self._node_id == NO_NODE else self._node_id,
            listeners=[
                cluster_pb2.GatewayListener(name=name, host=each[0], port=each[1])
                for name, each in addresses.items()
            ],
            instance_port_shift=config.instance_port_shift,
        )

    async def _register(self) -> None:
        state = self._gateway_state()
        response = await self.controller.register_gateway(
            pb.RegisterGatewayRequest(gateway=state, seen=self.watch.seen),
            timeout_s=FIRST_IMAGE_TIMEOUT_S,
        )
        if response.error.error_code:
            raise HighwaterError(f"the controller refuses the gateway: {response.error.message}")
        # One of before there was one tells none: then that of this process has to do.
        self._login_secret = response.login_secret or self._login_secret
        self.watch.set_watcher(Watcher(gateway_id=state.gateway_id))
        if self._heartbeats is None:
            kind = InLoopHeartbeats if self._embedded else HeartbeatLoop
            self._heartbeats = kind(
                self._endpoints,
                make_request=lambda: pb.HeartbeatRequest(
                    node_id=-1,
                    gateway_id=state.gateway_id,
                    applied_revision=self.watch.applied_revision,
                    wants_shutdown=self._departure.begun,
                    seen=self.watch.seen,
                ),
                on_response=self._heartbeat_answered,
                interval_ms=response.heartbeat_interval_ms,
                monotonic_ms=self._clock.monotonic_ms,
            )
            self._heartbeats.start()

    def _heartbeat_answered(self, response: pb.HeartbeatResponse, _sent_ms: int) -> None:
        self.routing.note_revision(response.revision)
        self._departure.answered(response, registering=self._registering)
        lost = response.error.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        if lost and not self._registering and not self._departure.begun:
            self._registering = True
            self._tasks.start(self._register_again(), name="register-gateway")

    async def _register_again(self) -> None:
        try:
            await self._register()
        except HighwaterError as error:
            self._log.warning("gateway_registration_failed", error=str(error))
        finally:
            self._registering = False

    def _image_changed(self, image: ClusterImage, delta: ClusterDelta | None) -> Steps[None]:
        if self._listener is not None:
            self._listener.doors.follow(image.instances)
            self._listener.newcomers.follow(image, self._node_id)
            # Before a new topic has a route, its lists are known.
            if self._topic_networks.follow(image, delta):
                self._listener.forget_shapes()
        yield from self._follower.following(image, delta)
        if self._listener is not None and (delta is None or delta.acls or delta.instances):
            self._listener.forget_shapes()
        if self._listener is not None:
            yield from self._quotas.following(image.client_quotas, self._listener.connections)
        if self._heartbeats is not None:
            self._heartbeats.nudge()
        self._ports.follow(image)

    def _port_not_opened(self, error: UsageError) -> None:
        self._log.error("port_not_opened", error=str(error))

    def _missing_ports(self) -> Mapping[InstanceId, int]:
        return self._ports.instances.missing

    def _instance_port_not_opened(self, block: BlockKey, error: UsageError) -> None:
        self._log.error("port_not_opened", error=str(error), **block._asdict())

    def _route_of(self, topic_id: TopicId, partition: int) -> PartitionRoute | None:
        return self.routing.route(topic_id, partition)

    def _expire(self) -> None:
        self._expirer = self._loop.call_later(EXPIRE_S, self._expire)
        now_ms = self._clock.monotonic_ms()
        self.links.expire(now_ms)
        self.held.expire(now_ms)

    def _stop_expiring(self) -> None:
        self._expirer.cancel()

    # ---- failures ----

    def _task_failed(self, name: str, error: BaseException) -> None:
        self._log.error("task_failed", task=name, exc_info=error)

    def _watch_failed(self, watch: "asyncio.Future[None]") -> None:
        error = None if watch.cancelled() else watch.exception()
        if error is not None and not self.failed.done():
            self.failed.set_exception(error)
