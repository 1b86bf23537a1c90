"""The node's place in the cluster: registration, heartbeats, and its identity on disk.

Each start is a new incarnation with a new token, which the node writes into every log directory. A
gateway that finds the token there knows that it sees the same files (decision 4).
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.metadata.heartbeat import HeartbeatLoop, Heartbeats, InLoopHeartbeats
from highwater.metadata.watch import ClusterWatch, Watcher
from highwater.model.cluster import ClusterImage
from highwater.model.errors import HighwaterError, UsageError
from highwater.model.ids import NodeId, TopicId
from highwater.model.time import Clock
from highwater.partition.data_plane.controller_session import ControllerSession
from highwater.partition.node.asked_hand_overs import AskedHandOver, HandOverAnswer
from highwater.runtime.logging import Logger
from highwater.runtime.tasks import TaskOwner

INCARNATION_FILE: Final = ".highwater_incarnation"
REGISTER_TIMEOUT_S: Final = 30.0
DUPLICATE_RETRY_S: Final = 0.5
GATEWAY_WAIT_MS: Final = 15_000
"""A node with a gateway that does not get registered is fenced no longer: other gateways can serve it."""
DRAIN_BEAT_S: Final = 0.1
"""Between heartbeats of a node that waits for the controller's permission to stop."""
_REGISTER_AGAIN: Final = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """What the log directories tell about the node before it registers."""

    node_id: int
    """-1 if this is its first start."""
    cluster_id: str
    previous_node_epoch: int
    incarnation: str
    """New at every start."""


class HandOvers(Protocol):
    """Requests from the controller to hand leaderships over (`asked_hand_overs`)."""

    @property
    def answers(self) -> Sequence[HandOverAnswer]:
        """The current answers; read on the heartbeats' thread."""
        ...

    def ask(self, asked: Iterable[AskedHandOver]) -> None:
        """Begins to hand over; repeated requests are harmless."""
        ...


class Membership:
    """From `join` to `leave`; `node_id` and `node_epoch` are valid in between."""

    def __init__(
        self,
        *,
        identity: NodeIdentity,
        log_dirs: Sequence[Path],
        rack: str,
        endpoints: ControllerEndpoints,
        client: ControllerClient,
        watch: ClusterWatch,
        tasks: TaskOwner,
        log: Logger,
        in_loop: bool,
        leader_count: Callable[[], int],
        offline_replicas: Callable[[], Mapping[TopicId, Sequence[int]]],
        full_replicas: Callable[[], Mapping[TopicId, Sequence[int]]],
        disks_hang: Callable[[], bool],
        lineage: Callable[[], Sequence[str]],
        on_registered: Callable[[int], None],
        static_configs: Mapping[str, str],
        clock: Clock,
        hand_overs: HandOvers,
        session: ControllerSession | None = None,
        has_gateway: bool = False,
    ) -> None:
        """`in_loop`: send heartbeats without a thread of their own, for the embedded mode.

        `leader_count`, `offline_replicas` (partitions here whose logs cannot be used, by topic),
        `full_replicas` (those that take no appends because the disk is nearly full) and `disks_hang` (whether every directory hangs, which stops heartbeats as a hanging loop
        does) are called on the heartbeats' thread, so their values are replaced, never changed.
        `lineage` gives the incarnations whose records the directories hold (`core.lineage`).
        `on_registered` is called with the node epoch of every registration, before other users.
        `static_configs` are the node's settings under Kafka's names, for DescribeConfigs.
        `hand_overs` gets requests to hand over, and has answers for the heartbeats.
        `session` is told how long the controller's session lasts; None if nobody asks.
        `has_gateway`: this process has a gateway, without which the node is to remain fenced for a while.
        """
        self._identity = identity
        self._log_dirs = [path.resolve() for path in log_dirs]
        self._rack = rack or socket.gethostname()
        self._endpoints = endpoints
        self._client = client
        self._watch = watch
        self._tasks = tasks
        self._log = log
        self._in_loop = in_loop
        self._leader_count = leader_count
        self._offline_replicas = offline_replicas
        self._full_replicas = full_replicas
        self._disks_hang = disks_hang
        self._lineage = lineage
        self._on_registered = on_registered
        self._static_configs = static_configs
        self._clock = clock
        self._hand_overs = hand_overs
        self._session = session
        self._has_gateway = has_gateway
        self._missed_since_ms: int | None = None
        """Since when images of this registration lack the gateway; None if they do not."""
        self._heartbeats: Heartbeats | None = None
        self._address = ""
        self._registering = False
        self._failed_log_dirs: list[str] = []
        self._wants_shutdown = False
        self._may_shut_down = asyncio.Event()
        self.incarnation = identity.incarnation
        self.node_id = NodeId(identity.node_id)
        self.node_epoch = -1
        self.cluster_id = identity.cluster_id

    async def join(self, address: str) -> None:
        """Registers and begins to send heartbeats. Raises UsageError if the id is taken."""
        self._address = address
        self._write_token()
        response = await self._register()
        kind = InLoopHeartbeats if self._in_loop else HeartbeatLoop
        self._heartbeats = kind(
            self._endpoints,
            make_request=self._heartbeat,
            on_response=self._answered,
            interval_ms=response.heartbeat_interval_ms,
            monotonic_ms=self._clock.monotonic_ms,
        )
        self._heartbeats.start()

    def _write_token(self) -> None:
        """Writes the token. A gateway that does not find it gets bytes over the network instead."""
        for directory in self._log_dirs:
            try:
                (directory / INCARNATION_FILE).write_text(self.incarnation)
            except OSError as error:
                self._log.warning("no_token_in_log_dir", log_dir=str(directory), error=str(error))

    async def _register(self) -> pb.RegisterNodeResponse:
        """Registers once; waits until the session of an earlier incarnation ends."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + REGISTER_TIMEOUT_S
        while True:
            request = self._registration()
            response = await self._client.register_node(request, timeout_s=REGISTER_TIMEOUT_S)
            code = response.error.error_code
            if code == 0:
                break
            if code != ErrorCode.DUPLICATE_BROKER_REGISTRATION or loop.time() > deadline:
                raise UsageError(f"the controller refuses the node: {response.error.message}")
            await asyncio.sleep(DUPLICATE_RETRY_S)
        self.node_id = NodeId(response.node_id)
        self.node_epoch = response.node_epoch
        self.cluster_id = response.cluster_id
        if self._session is not None:
            self._session.timeout_ms = response.session_timeout_ms
        self._missed_since_ms = None
        self._on_registered(self.node_epoch)
        self._watch.set_watcher(Watcher(node_id=self.node_id, node_epoch=self.node_epoch))
        self._log.info("registered", node_id=self.node_id, node_epoch=self.node_epoch)
        return response

    def _registration(self) -> pb.RegisterNodeRequest:
        """Built for each try, as a directory may have failed since the last one."""
        return pb.RegisterNodeRequest(
            node_id=self.node_id,
            address=self._address,
            rack=self._rack,
            incarnation=self.incarnation,
            log_dirs=[str(path) for path in self._log_dirs],
            previous_node_epoch=self._identity.previous_node_epoch,
            cluster_id=self.cluster_id,
            static_configs=self._static_configs,
            lineage=self._lineage(),
            seen=self._watch.seen,
        )

    def _heartbeat(self) -> pb.HeartbeatRequest | None:
        # In the embedded mode no other node could lead.
        if not self._in_loop and self._disks_hang():
            return None
        return pb.HeartbeatRequest(
            node_id=self.node_id,
            node_epoch=self.node_epoch,
            applied_revision=self._watch.applied_revision,
            seen=self._watch.seen,
            failed_log_dirs=self._failed_log_dirs,
            wants_shutdown=self._wants_shutdown,
            waits_for_gateway=self._waits_for_gateway(),
            leader_count=self._leader_count(),
            offline_replicas=[
                pb.OfflineReplicas(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in self._offline_replicas().items()
            ],
            full_replicas=[
                pb.FullReplicas(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in self._full_replicas().items()
            ],
            handed_over=[
                pb.HandedOver(
                    topic_id=answer.key[0],
                    partition=answer.key[1],
                    leader_epoch=answer.leader_epoch,
                    ready=answer.ready,
                    successor=answer.successor,
                )
                for answer in self._hand_overs.answers
            ],
        )

    def _answered(self, response: pb.HeartbeatResponse, sent_ms: int) -> None:
        if self._session is not None and not response.error.error_code and not response.fenced:
            self._session.vouched_for(sent_ms)
        if response.may_shut_down and self._wants_shutdown:
            self._may_shut_down.set()
        if response.hand_over and not self._wants_shutdown:
            self._hand_overs.ask(
                AskedHandOver(
                    key=(TopicId(one.topic_id), one.partition),
                    leader_epoch=one.leader_epoch,
                    successor=one.successor,
                )
                for one in response.hand_over
            )
        if response.error.error_code in _REGISTER_AGAIN and not self._registering:
            self._registering = True
            self._tasks.start(self._register_again(), name="register-node")

    async def _register_again(self) -> None:
        try:
            await self._register()
            self.nudge()
        except HighwaterError as error:
            self._log.warning("registration_failed", error=str(error))
        finally:
            self._registering = False

    def _waits_for_gateway(self) -> bool:
        """Without it clients would get another gateway's address for the node, for a moment: librdkafka's
        transactional producers stay at the address that their coordinator had when they found it.
        """
        since_ms = self._missed_since_ms
        late = since_ms is not None and self._clock.monotonic_ms() - since_ms >= GATEWAY_WAIT_MS
        return self._has_gateway and not late

    def applied(self, image: ClusterImage) -> None:
        """The image, which has this registration, has been applied: tell the controller now."""
        if any(gateway.node_id == self.node_id for gateway in image.gateways.values()):
            self._missed_since_ms = None
        elif self._missed_since_ms is None:
            self._missed_since_ms = self._clock.monotonic_ms()
        self.nudge()

    def nudge(self) -> None:
        """Tells the controller now what the next heartbeat would."""
        if self._heartbeats is not None:
            self._heartbeats.nudge()

    def log_dir_failed(self, directory: str) -> None:
        """A directory is offline; the next heartbeat reports it and its replicas."""
        self._failed_log_dirs = [*self._failed_log_dirs, directory]
        self.nudge()

    async def drain(self, timeout_s: float) -> bool:
        """Asks the controller to move leaderships away; True once nothing depends on this node.

        The controller also releases the only node that could lead a partition. Raises nothing:
        after `timeout_s` the node stops without the controller's answer.
        """
        if self._heartbeats is None:
            return False
        self._wants_shutdown = True
        try:
            async with asyncio.timeout(timeout_s):
                while not self._may_shut_down.is_set():
                    self._heartbeats.nudge()
                    await self._wait_for_permission()
                await self._wait_until_draining(timeout_s)
        except TimeoutError:
            self._log.warning("not_drained", timeout_s=timeout_s)
            return False
        return True

    async def _wait_for_permission(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_BEAT_S):
                await self._may_shut_down.wait()

    async def _wait_until_draining(self, timeout_s: float) -> None:
        """Waits until the image says that this node drains; it then names the new leaders, too."""
        while (image := self._watch.image) is not None:
            state = image.nodes.get(self.node_id)
            if state is None or state.node_epoch != self.node_epoch or state.draining:
                return
            await self._watch.wait_for_revision(image.revision + 1, timeout_s)

    async def leave(self) -> None:
        """Stops the heartbeats; the end of the watch stream tells the controller."""
        if self._heartbeats is not None:
            await self._heartbeats.stop()
