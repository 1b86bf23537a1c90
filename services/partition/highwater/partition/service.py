"""A partition node, put together: logs, data plane, coordinators, membership, gRPC edge.

Start: open the logs (recovery), serve, register, take the first image, carry it out. Stop: let others
lead (`hand_over`), answer what was asked, leave, close coordinators and logs (checkpoints, clean shutdown).
"""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry

from highwater.hop.append import AppendOwner
from highwater.hop.channels import hop_channels
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.metadata.watch import ClusterWatch
from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.model.errors import HighwaterError
from highwater.model.ids import TopicId
from highwater.model.steps import Steps
from highwater.model.time import Clock
from highwater.partition.config import PartitionConfig
from highwater.partition.core.disk_marks import DiskMark
from highwater.partition.data_plane.controller_session import ControllerSession
from highwater.partition.data_plane.markers import find_target
from highwater.partition.data_plane.offsets import OffsetQueries
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.edge.local_link import LocalLink
from highwater.partition.edge.member_link import LocalMemberLink
from highwater.partition.edge.node_server import NodeServer
from highwater.partition.metrics.collectors import node_collectors
from highwater.partition.node.asked_hand_overs import AskedHandOvers
from highwater.partition.node.controlled_shutdown import ControlledShutdown
from highwater.partition.node.coordinators import NodeCoordinators
from highwater.partition.node.disk_guard import DiskGuard
from highwater.partition.node.failures import NodeFailures
from highwater.partition.node.found_damage import FoundDamage
from highwater.partition.node.log_dirs import LogDirRequests
from highwater.partition.node.loggers import LoggerQueries
from highwater.partition.node.logs import NodeLogs
from highwater.partition.node.membership import Membership
from highwater.partition.node.node_replication import NodeReplication
from highwater.partition.node.quotas import NodeQuotas
from highwater.partition.node.repairs import Repairs
from highwater.partition.node.replicas import Replicas
from highwater.partition.node.static_configs import static_configs
from highwater.partition.node.topic_policy import TopicPolicies
from highwater.partition.quota.reporter import QuotaStub
from highwater.partition.replication.follower.range_client import RangeClient
from highwater.partition.storage.errors import StorageError
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.scrubbing.scrubber import Damage
from highwater.rpc.inner import Inner
from highwater.runtime.health import Readiness
from highwater.runtime.logging import Logger
from highwater.runtime.loop_lag import LoopLagMonitor
from highwater.runtime.metrics import serve_metrics
from highwater.runtime.tasks import TaskOwner

FIRST_IMAGE_TIMEOUT_S: Final = 30.0


class PartitionService:
    """One node. To be built on the loop that it runs on; `endpoints` is closed by the owner."""

    def __init__(
        self,
        config: PartitionConfig,
        *,
        clock: Clock,
        endpoints: ControllerEndpoints,
        registry: CollectorRegistry,
        log: Logger,
        embedded: bool = False,
        observed: bool = False,
        has_gateway: bool = False,
    ) -> None:
        """`embedded`: the only node, no gRPC server, no thread for heartbeats; see `local_link`.

        `observed`: a process of several services serves the metrics and watches the loop.
        `has_gateway`: this process has a gateway, which will register; the node leads nothing before that.
        """
        self._config = config
        self._clock = clock
        self._registry = registry
        self._log = log
        self._embedded = embedded
        self._observed = embedded or observed
        self._has_gateway = has_gateway
        loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[None] = loop.create_future()
        self.readiness = Readiness()
        self.watch = ClusterWatch(endpoints, log=log)
        self.readiness.add("metadata", lambda: self.watch.image is not None)
        self._inner = Inner(config.inner, log)
        self._quotas = NodeQuotas(config.quota_address, clock.monotonic_ms, log, self._inner)
        self._membership: Membership | None = None
        self.failures = self._make_failures()
        self.plane = self._make_plane(loop)
        self.queries = OffsetQueries(self.plane, self.failures.log_failed)
        self._endpoints = endpoints
        self._tasks = TaskOwner(self._task_failed)
        self._server = (
            None if embedded else NodeServer(config, self._call_failed, log, inner=self._inner)
        )
        self._channels = hop_channels(config.hop, self._call_failed, self._inner)
        self._stack = AsyncExitStack()
        self.logs = self._make_logs()
        self.static_configs = static_configs(config)
        self._client = ControllerClient(endpoints)
        self.coordinators = self._make_coordinators()
        self.plane.verify_by(self.coordinators.verifier)
        wanted = config.acks_1_needs_session
        self._session = ControllerSession(clock.monotonic_ms) if wanted else None
        self.replication = self._make_replication()
        self.replicas = self._make_replicas()
        self._ranges = RangeClient(self._channels)
        self.repairs = self._make_repairs()
        self._found_damage = FoundDamage(
            logs=self.logs, repairs=self.repairs, replicas=self.plane.replicas.values, log=log
        )
        self.log_dirs = LogDirRequests(
            config.log_dirs,
            replicas=self.replicas.of_instance,
            is_online=self.logs.is_online,
            find=self.plane.replicas.get,
            prefer=self.logs.manager.preferred.remember,
            moves=self.logs.moves,
        )
        self.disk_guard = self._make_disk_guard()
        self.loggers = LoggerQueries(log)
        self._asked_hand_overs = self._make_asked_hand_overs()
        self._shutdown = self._make_shutdown()
        self._strays_gone = False
        """Whether logs without a topic were looked for since the start."""

    def _make_failures(self) -> NodeFailures:
        return NodeFailures(
            self._config.log_dirs,
            plane_replicas=lambda: self.plane.replicas.values(),  # noqa: PLW0108 - none yet.
            logs=lambda: self.logs,
            replicas=lambda: self.replicas,
            membership=lambda: self._membership,
            failed=self.failed,
            log=self._log,
        )

    def _make_plane(self, loop: asyncio.AbstractEventLoop) -> DataPlane:
        return DataPlane(
            loop.call_later,
            self.failures.replica_bug,
            self._quotas.meters.by_instance,
            on_damage=self._unreadable,
            may_heal_soon=self._may_heal_soon,
            is_whole=self._is_whole,
            leader_elsewhere=self._leader_elsewhere,
            rack_aware=bool(self._config.replica_selector_class),
        )

    def _make_logs(self) -> NodeLogs:
        return NodeLogs(
            self._config,
            clock=self._clock,
            loop=asyncio.get_running_loop(),
            log=self._log,
            on_dir_failure=self.failures.dir_failed,
            on_damage=self._damaged,
            find=self.plane.replicas.get,
        )

    def _make_replication(self) -> NodeReplication:
        return NodeReplication(
            replicas=self.plane.replicas.values,
            client=self._client,
            identity=self._identity,
            flush=self.logs.flush,
            lag_ms_max=self._config.replica_lag_time_max_ms,
            on_bug=self.failures.replica_bug,
            on_failure=self._task_failed,
            clock=self._clock,
            log=self._log,
            channels=self._channels,
            reads_files=self._config.replica_reads_files,
        )

    def _make_disk_guard(self) -> DiskGuard:
        return DiskGuard(
            self._config.log_dirs,
            DiskMark.parse(self._config.storage.disk_free_min),
            full=self.plane.full_directories,
            replicas=self.plane.replicas.items,
            is_online=self.logs.is_online,
            resume=self.replication.resume,
            is_internal=self.replicas.is_internal,
            tell=self._tell_controller,
            log=self._log,
        )

    def _make_coordinators(self) -> NodeCoordinators:
        return NodeCoordinators(
            self._config,
            plane=self.plane,
            node_id=lambda: self.membership.node_id,
            find_target=partial(find_target, self.plane),
            channels=self._channels,
            allocator=self._client,
            room=self._quotas.groups.refusal,
            tasks=self._tasks,
            clock=self._clock,
            log=self._log,
        )

    def _make_replicas(self) -> Replicas:
        return Replicas(
            plane=self.plane,
            logs=self.logs,
            policies=TopicPolicies(self.static_configs),
            roles=self.coordinators.roles,
            clock=self._clock,
            log=self._log,
            on_log_failure=self.failures.log_failed,
            port=self.replication,
            lag_ms_max=self._config.replica_lag_time_max_ms,
            session=self._session,
        )

    def _make_repairs(self) -> Repairs:
        return Repairs(
            plane=self.plane,
            replicas=self.replicas,
            manager=self.logs.manager,
            source=self._ranges,
            clock=self._clock,
            log=self._log,
            on_healed=self.logs.cleaner.try_again,
            on_stepped_back=self.failures.tell_offline,
        )

    def _make_shutdown(self) -> ControlledShutdown:
        return ControlledShutdown(
            membership=lambda: self._membership,
            replicas=self.replicas.client_replicas,
            watch=self.watch,
            asked_hand_overs=self._asked_hand_overs,
            config=self._config,
            log=self._log,
        )

    def _identity(self) -> tuple[int, int]:
        return self.membership.node_id, self.membership.node_epoch

    @property
    def membership(self) -> Membership:
        """The node's place in the cluster; after `start`."""
        assert self._membership is not None
        return self._membership

    def local_link(self, schedule: Callable[[Callable[[], None]], object]) -> LocalLink:
        """The link of a gateway in the same process to the only node; after `start`."""
        return LocalLink(
            self.membership.node_id,
            plane=self.plane,
            queries=self.queries,
            log_dirs=self.log_dirs,
            loggers=self.loggers,
            coordinator=self.coordinators,
            schedule=schedule,
        )

    def member_link(
        self, schedule: Callable[[Callable[[], None]], object], append_owner: AppendOwner
    ) -> LocalMemberLink:
        """The link of a gateway in the same process to this node, one of several; after `start`."""
        return LocalMemberLink(
            self.local_link(schedule),
            plane=self.plane,
            coordinator=self.coordinators,
            schedule=schedule,
            append_owner=append_owner,
        )

    def connect_quota(self, stub: QuotaStub) -> None:
        """A QuotaService of this process (its stub), for the embedded mode; before `start`."""
        self._quotas.connect(stub)

    async def start(self) -> None:
        """Returns when every replica has the role that the first image gives it."""
        stack = self._stack
        if not self._observed:
            await self._start_observing()
        identity = await asyncio.to_thread(self.logs.open)
        stack.callback(self.logs.close)
        stack.callback(self.replicas.conversions.close)
        stack.push_async_callback(self._tasks.close, timeout_s=2)
        stack.push_async_callback(self.coordinators.stop)
        self.logs.start(self._tasks)
        address = self._config.advertised_address or "in-process"
        if self._server is not None:
            address = await self._serve(self._server)
        self._membership = Membership(
            identity=identity,
            log_dirs=self._config.log_dirs,
            rack=self._config.rack,
            endpoints=self._endpoints,
            client=self._client,
            watch=self.watch,
            tasks=self._tasks,
            log=self._log,
            in_loop=self._embedded,
            leader_count=lambda: self.replicas.leader_count,
            offline_replicas=lambda: self.replicas.offline,
            full_replicas=lambda: self.disk_guard.refusing,
            disks_hang=lambda: self.logs.hangs,
            lineage=lambda: self.logs.lineage,
            on_registered=self._registered,
            static_configs=self.static_configs,
            clock=self._clock,
            hand_overs=self._asked_hand_overs,
            session=self._session,
            has_gateway=self._has_gateway,
        )
        for index in self.logs.failed_dirs:
            self._membership.log_dir_failed(str(self._config.log_dirs[index]))
        self._register_metrics(self._membership)
        stack.push_async_callback(self.watch.stop)
        await self._membership.join(address)
        stack.push_async_callback(self._membership.leave)
        self.logs.registered(self._membership)
        stack.push_async_callback(self._ranges.close)
        stack.push_async_callback(self.replication.close)
        self.replication.start()
        self._tasks.start(self.repairs.run(), name="repairs")
        self._tasks.start(self.disk_guard.run(), name="disk-guard")
        self.watch.subscribe(self._image_changed)
        self.watch.failed.add_done_callback(self._watch_failed)
        self.watch.start()
        try:
            # Older images are about the incarnation before.
            await self.watch.wait_for_revision(self._membership.node_epoch, FIRST_IMAGE_TIMEOUT_S)
        except TimeoutError:
            raise HighwaterError("the controller sent no metadata in time") from None
        await self._quotas.start(
            identity=self._identity,
            replicas=self.replicas,
            groups=self.coordinators,
            image=self.watch.image,
            tasks=self._tasks,
            stack=stack,
        )
        if self._server is not None:
            await self._server.set_serving(serving=True)

    def _register_metrics(self, membership: Membership) -> None:
        for collector in node_collectors(
            plane=self.plane,
            coordinators=self.coordinators,
            logs=self.logs,
            repairs=self.repairs,
            disk_guard=self.disk_guard,
            replicas=self.replicas,
            replication=self.replication,
            watch=self.watch,
            membership=membership,
            channels=self._channels,
            server=self._server,
        ):
            self._registry.register(collector)
        self._inner.watch_certificates(self._stack, self._registry, "partition")

    async def stop(self) -> None:
        """See the module."""
        if self._server is not None:
            await self._server.set_serving(serving=False)
        deadline_s = asyncio.get_running_loop().time() + self._config.drain_s
        await self.hand_over()
        await self._end_streams(deadline_s)
        await self._stack.aclose()

    def _make_asked_hand_overs(self) -> AskedHandOvers:
        return AskedHandOvers(
            find=self.plane.replicas.get,
            is_internal=self.replicas.is_internal,
            answered=self._tell_controller,
            catch_up_s=self._config.drain_catch_up_s,
            tasks=self._tasks,
            log=self._log,
        )

    def _tell_controller(self) -> None:
        """Sends a heartbeat now; after `start`."""
        self.membership.nudge()

    async def hand_over(self) -> None:
        """The first part of `stop`; a gateway in the same process should still serve clients."""
        await self._shutdown.run()

    async def _end_streams(self, deadline_s: float) -> None:
        """Answers what was asked, however late it is; the deadline is on the loop's clock."""
        self.plane.held.end()
        left_s = max(deadline_s - asyncio.get_running_loop().time(), self._config.drain_s / 4)
        if self._server is not None and not await self._server.drain(left_s):
            self._log.warning("streams_not_ended", timeout_s=left_s)

    async def _start_observing(self) -> None:
        await serve_metrics(self._stack, self._config.metrics, self._registry, self.readiness)
        monitor = LoopLagMonitor("partition", self._registry, self._log)
        self._stack.push_async_callback(monitor.stop)
        await monitor.start()

    async def _serve(self, server: NodeServer) -> str:
        server.add_methods(
            plane=self.plane,
            queries=self.queries,
            log_dirs=self.log_dirs,
            loggers=self.loggers,
            coordinator=self.coordinators,
            replication=self.replication,
        )
        self._stack.push_async_callback(server.stop, drain_s=self._config.drain_s)
        await server.start()
        return self._config.advertised_address or server.reachable_address

    def _registered(self, node_epoch: int) -> None:
        """An image that names this registration may have come before its answer."""
        self.replicas.registered(node_epoch)
        self.watch.repeat(self._image_changed)

    def _image_changed(self, image: ClusterImage, delta: ClusterDelta | None) -> Steps[None]:
        membership = self.membership
        state = image.nodes.get(membership.node_id)
        if state is None or state.node_epoch != membership.node_epoch:
            return  # What it says of this node is about another incarnation.
        self.replication.image_changed(image)
        self._ranges.image_changed(image)
        self.coordinators.before_image(image, delta.removed_instances if delta else frozenset())
        yield from self.replicas.applying(image, membership.node_id)
        self._quotas.image_applied(image, self.replicas.leader_count)
        if not self._strays_gone and image.revision >= membership.node_epoch:
            # Not older than the registration, so no topic that is meant for this node is missing.
            self._strays_gone = True
            self.logs.set_strays_aside(image, membership.node_id)
            self.logs.moves.go_on(self.plane.replicas.values())
        self.coordinators.after_image()
        membership.applied(image)

    # ---- failures ----

    def _may_heal_soon(self, replica: PartitionReplica) -> bool:
        return self.repairs.may_heal_soon(replica)

    def _leader_elsewhere(self, topic_id: TopicId, partition: int) -> tuple[int, int]:
        return self.replicas.leader_of(topic_id, partition)

    def _is_whole(self, replica: PartitionReplica) -> bool:
        return self.repairs.is_whole(replica)

    def _unreadable(self, replica: PartitionReplica, error: StorageError) -> bool:
        return self._found_damage.by_read(replica, error)

    def _damaged(self, log: PartitionLog, damage: Damage) -> None:
        self._found_damage.by_scrubber(log, damage)

    def _call_failed(self, path: str, error: BaseException) -> None:
        """A bug that costs one call."""
        self._log.error("call_failed", path=path, exc_info=error)

    def _task_failed(self, name: str, error: BaseException) -> None:
        self._log.error("task_failed", task=name, exc_info=error)
        if not self.failed.done():
            self.failed.set_exception(error)

    def _watch_failed(self, watch: "asyncio.Future[None]") -> None:
        error = None if watch.cancelled() else watch.exception()
        if error is not None and not self.failed.done():
            self.failed.set_exception(error)
