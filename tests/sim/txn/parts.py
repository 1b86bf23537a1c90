"""What a node's process has beside its replica in a cluster with transactions.

The product's own classes, put together as `node.coordinators.NodeCoordinators` does it: verification of
transactional appends, markers, and where the replica is one of a coordinator's topic, the coordinator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from highwater.hop.append import AppendGroup, Failure, TransactionalWrite
from highwater.hop.coordinator import CoordinatorCall
from highwater.hop.fetch import READ_COMMITTED
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterImage
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.partition.coordinator.coordinator_log import DataPlaneLog
from highwater.partition.core.replica import ACKS_ALL
from highwater.partition.data_plane.markers import Markers
from highwater.partition.data_plane.verified_appends import AppendVerification
from highwater.partition.node.marker_link import MarkerLink
from highwater.partition.node.verifier_link import VerifierLink
from highwater.partition.transactions.partition_verifier import PartitionVerifier
from highwater.partition.transactions.runtime import TransactionCoordinator
from highwater.runtime.tasks import TaskOwner
from tests.sim.site import ProcessPart
from tests.sim.txn.calls import ServedCalls, SimCalls
from tests.sim.txn.coordinators import Coordinator
from tests.sim.txn.log_files import TransactionalProducers
from tests.sim.txn.loop import SimLoop
from tests.sim.txn.plane import SimPlane, SimReplica

if TYPE_CHECKING:
    from tests.sim.node import NodeProcess
    from tests.sim.txn.cluster import Cluster

ELSEWHERE = -1
"""The node id that links take for their own: no peer is in this process."""
SNAPSHOT_SHARE = 0.3


def _no_coordinator(_instance: InstanceId) -> Any:
    raise AssertionError("links take themselves to be elsewhere")


class SimCoordinatorLog(DataPlaneLog):
    """Reads the simulated log; all else is the product's."""

    def __init__(self, plane: SimPlane, process: NodeProcess, cluster: Cluster) -> None:
        super().__init__(plane)  # type: ignore[arg-type]  # as much of a data plane as it uses.
        self._process = process
        self._batches = cluster.batches

    def read(self, partition: int, offset: int, max_bytes: int) -> bytes:
        log = self._process.log
        found = bytearray()
        for number, entry in enumerate(log.read(offset, log.end), offset):
            data = self._batches.placed(entry[1], number, entry[0])
            if found and len(found) + len(data) > max_bytes:
                break
            found += data
        return bytes(found)

    def recheck(self, partition: int, offset: int) -> None:
        raise AssertionError("no batch is damaged here")


class Node(ProcessPart):
    """From the start of a process to its end."""

    def __init__(self, process: NodeProcess, cluster: Cluster, name: str) -> None:
        self.process = process
        self.cluster = cluster
        self.loop = SimLoop(process)  # type: ignore[abstract]  # what coordinators use is there.
        self.tasks = TaskOwner(self._task_failed)
        topic = cluster.topics[name]
        self.replica = SimReplica(process, topic.topic_id, name)
        self.plane = SimPlane(process, self.replica)
        self.markers = Markers(self.plane)  # type: ignore[arg-type]
        self.calls = SimCalls(process, cluster, name)
        self._served = ServedCalls(self)
        shared: dict[str, Any] = {"node_id": lambda: ELSEWHERE, "calls": self.calls}
        self._verifier_link = VerifierLink(coordinator=_no_coordinator, tasks=self.tasks, **shared)
        self.verifier = PartitionVerifier(self._verifier_link, call_soon=self.loop.call_soon)
        self.marker_link = MarkerLink(
            find_target=lambda *_: None,
            tasks=self.tasks,
            call_later=self.loop.call_later,
            **shared,
        )
        self.verified = cluster.bug.verified_appends(
            self.replica,
            AppendVerification(self.verifier, self._call_later),
            self._append,
        )
        self.coordinator: Coordinator | None = None
        if topic.internal:
            log = SimCoordinatorLog(self.plane, process, cluster)
            log.topic = topic
            self.coordinator = self.loop.run(cluster.coordinators.open, self, log)
        self._follow_image()

    def _task_failed(self, name: str, error: BaseException) -> None:
        raise AssertionError(f"task {name} failed") from error

    # ---- the replica's role ----

    def leads(self) -> None:
        self._follow_image()
        if self.coordinator is not None:
            self.loop.run(self.coordinator.become_leader, 0, self.replica.leader_epoch)
        self.replica.tell_listeners()

    def stops_leading(self) -> None:
        if self.coordinator is not None:
            self.loop.run(self.coordinator.resign, 0)
        self.process.log.producers.verifications.clear()
        self.loop.run(self.verified.leader_gone)
        self.replica.tell_listeners()

    def log_changed(self) -> None:
        self.loop.run(self.replica.tell_listeners)

    def run(self, function: Callable[..., object], *args: object) -> None:
        self.loop.run(function, *args)

    def tick(self) -> None:
        process = self.process
        self._follow_image()
        noted = process.log.noted
        assert isinstance(noted, TransactionalProducers)
        noted.expire()
        if (
            self.replica.states.transactions.seen
            and not process.log.writing
            and process.role.answers.stalled is None
            and process.world.disk_random.random() < SNAPSHOT_SHARE
        ):
            noted.take_snapshot(process.log.end)
        if not isinstance(self.coordinator, TransactionCoordinator):
            self.cluster.observer.looks_at(self)

    def _follow_image(self) -> None:
        image: ClusterImage = self.cluster.image()
        self._verifier_link.image_changed(image)
        self.marker_link.image_changed(image)
        if isinstance(self.coordinator, TransactionCoordinator):
            self.loop.run(self.coordinator.image_changed)

    # ---- calls ----

    def submit(self, call: CoordinatorCall) -> None:
        if self.coordinator is None:
            call.reply(ErrorCode.NOT_COORDINATOR, b"")
        else:
            self.coordinator.submit(call)

    def on_call(self, *args: Any) -> None:
        self.loop.run(self._served.serve, *args)

    def on_called(self, number: int, data: bytes) -> None:
        self.loop.run(self.calls.answered, number, data)

    def on_request(
        self,
        client: int,
        request: int,
        key: int,
        version: int,
        body: bytes,
        given_up: Callable[[], bool] | None = None,
    ) -> None:
        """A client's call to the coordinator, as the gateway would pass it on."""
        if given_up is not None and given_up():
            return
        call = CoordinatorCall(
            api_key=key,
            api_version=version,
            instance=DEFAULT_INSTANCE,
            client_id="",
            client_host="",
            body=body,
            partition=0,
            deadline_ms=60_000,
            reply=lambda code, answer: self._tell(
                client, "on_response", (request, code, bytes(answer))
            ),
        )
        self.loop.run(self.submit, call)

    def _tell(self, client: int, name: str, args: tuple[Any, ...]) -> None:
        self.process.world.network.send(self.process.node, client, name, args)

    # ---- records in transactions ----

    def on_produce(
        self, client: int, request: int, epoch: int, value: int, name: str, adds: bool
    ) -> None:
        """One batch of a transactional producer."""
        owner = ClientOwner(partial(self._tell, client), request)
        group = AppendGroup(self.replica.topic_id, 0, epoch, ACKS_ALL, DEFAULT_INSTANCE, owner)
        group.batches.append(bytearray(self.cluster.batches[value]))
        group.nbytes = len(group.batches[0])
        group.transaction = TransactionalWrite(name, adds)
        if not self.loop.run(self.verified.takes, group):
            self._append(group)

    def _call_later(self, seconds: float, callback: Callable[[], None]) -> asyncio.Handle:
        """As uvloop: what is due at once comes in the next turn."""
        if not seconds:
            return self.loop.call_soon(callback)
        return self.loop.call_later(seconds, callback)

    def _append(self, group: AppendGroup) -> None:
        self.process.role.append(group)

    # ---- consumers ----

    def on_fetch(self, client: int, request: int, epoch: int, offset: int) -> None:
        """read_committed."""
        found: Any = self.process.role.read(epoch, offset, -1, READ_COMMITTED)
        entries, aborted = found.records or [], found.aborted_transactions or []
        if not found.error_code:
            end = offset + len(entries)
            self.cluster.observer.serves(self, found.last_stable_offset, offset, end, aborted)
        self._tell(client, "on_fetched", (request, found.error_code, offset, entries, aborted))


class ClientOwner:
    """Tells a producer what has become of its batch."""

    def __init__(self, tell: Any, request: int) -> None:
        self._tell = tell
        self._request = request

    def take_result(
        self,
        group: AppendGroup,
        base_offsets: list[int],
        failures: Mapping[int, Failure] | None,
    ) -> bool:
        """See `AppendOwner`."""
        code = failures[0].error_code if failures else 0
        self._tell("on_produced", (self._request, code, base_offsets[0]))
        return True
