"""The node's place in the cluster: registration, heartbeats, and what it keeps on disk of it.

A start is a new incarnation with a token of its own, which is also left in every log directory:
a gateway that finds it there knows that it reads the same files (decision 4).
"""

import asyncio
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.metadata.heartbeat import HeartbeatLoop, Heartbeats, InLoopHeartbeats
from highwater.metadata.watch import ClusterWatch, Watcher
from highwater.model.errors import HighwaterError, UsageError
from highwater.model.ids import NodeId, TopicId
from highwater.runtime.logging import Logger
from highwater.runtime.tasks import TaskOwner

INCARNATION_FILE: Final = ".highwater_incarnation"
REGISTER_TIMEOUT_S: Final = 30.0
DUPLICATE_RETRY_S: Final = 0.5
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_REGISTER_AGAIN: Final = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """What the log directories know of the node before it registers."""

    node_id: int
    """-1 if this is its first start."""
    cluster_id: str
    previous_node_epoch: int
    clean_shutdown: bool


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
        static_configs: Mapping[str, str],
    ) -> None:
        """`in_loop`: heartbeats without a thread of their own, for the embedded mode.

        `leader_count` and `offline_replicas` (partitions here whose logs cannot be used, by topic)
        are called on the heartbeats' thread: they give values that are replaced as a whole.
        `static_configs` are the node's settings under Kafka's names, for gateways to tell.
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
        self._static_configs = static_configs
        self._heartbeats: Heartbeats | None = None
        self._address = ""
        self._registering = False
        self._failed_log_dirs: list[str] = []
        self.incarnation = uuid.uuid4().hex
        self.node_id = NodeId(identity.node_id)
        self.node_epoch = -1
        self.cluster_id = identity.cluster_id

    async def join(self, address: str) -> None:
        """Registers and begins to send heartbeats. Raises UsageError if the id is taken."""
        self._address = address
        self._leave_token()
        response = await self._register()
        kind = InLoopHeartbeats if self._in_loop else HeartbeatLoop
        self._heartbeats = kind(
            self._endpoints,
            make_request=self._heartbeat,
            on_response=self._answered,
            interval_ms=response.heartbeat_interval_ms,
        )
        self._heartbeats.start()

    def _leave_token(self) -> None:
        """Without it gateways get bytes over the network, so a directory that fails may lack it."""
        for directory in self._log_dirs:
            try:
                (directory / INCARNATION_FILE).write_text(self.incarnation)
            except OSError as error:
                self._log.warning("no_token_in_log_dir", log_dir=str(directory), error=str(error))

    async def _register(self) -> pb.RegisterNodeResponse:
        """One registration; waits for the session of a former incarnation to end."""
        request = pb.RegisterNodeRequest(
            node_id=self.node_id,
            address=self._address,
            rack=self._rack,
            incarnation=self.incarnation,
            log_dirs=[str(path) for path in self._log_dirs],
            clean_shutdown=self._identity.clean_shutdown,
            previous_node_epoch=self._identity.previous_node_epoch,
            boot_id=_boot_id(),
            cluster_id=self.cluster_id,
            static_configs=self._static_configs,
        )
        loop = asyncio.get_running_loop()
        deadline = loop.time() + REGISTER_TIMEOUT_S
        while True:
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
        self._watch.set_watcher(Watcher(node_id=self.node_id, node_epoch=self.node_epoch))
        self._log.info("registered", node_id=self.node_id, node_epoch=self.node_epoch)
        return response

    def _heartbeat(self) -> pb.HeartbeatRequest:
        return pb.HeartbeatRequest(
            node_id=self.node_id,
            node_epoch=self.node_epoch,
            applied_revision=self._watch.applied_revision,
            failed_log_dirs=self._failed_log_dirs,
            leader_count=self._leader_count(),
            offline_replicas=[
                pb.OfflineReplicas(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in self._offline_replicas().items()
            ],
        )

    def _answered(self, response: pb.HeartbeatResponse) -> None:
        if response.error.error_code in _REGISTER_AGAIN and not self._registering:
            self._registering = True
            self._tasks.start(self._register_again(), name="register-node")

    async def _register_again(self) -> None:
        try:
            await self._register()
            self.applied()
        except HighwaterError as error:
            self._log.warning("registration_failed", error=str(error))
        finally:
            self._registering = False

    def applied(self) -> None:
        """An image has been carried out: tell the controller now."""
        if self._heartbeats is not None:
            self._heartbeats.nudge()

    def log_dir_failed(self, directory: str) -> None:
        """A directory is offline; the next heartbeat says so, and which replicas are."""
        self._failed_log_dirs = [*self._failed_log_dirs, directory]
        self.applied()

    async def leave(self) -> None:
        """Stops the heartbeats; the controller sees the watch's stream end."""
        if self._heartbeats is not None:
            await self._heartbeats.stop()


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""  # Not Linux: the controller then never takes the page cache for granted.
