"""Nodes and gateways as the active controller sees them: registration, sessions, fencing."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from highwater.controller.core.full_replicas import FullReplicas
from highwater.controller.core.gateways import node_without_port, overlaps_met
from highwater.controller.core.liveness import SessionTable
from highwater.controller.core.membership import (
    ElectionRules,
    Registration,
    admit,
    changing_nodes,
    drain,
    fence,
    has_movable_leadership,
    id_for,
    same_place,
    unfence,
)
from highwater.controller.core.offline_replicas import OfflineByNode, OfflineReplicas
from highwater.controller.core.outcome import PENDING_REVISION, Decision, Refusal, unchanged
from highwater.controller.core.tail_check import has_its_tail
from highwater.controller.image.writer import MetadataWriter
from highwater.controller.members.absent_nodes import IsRefused, close_ended
from highwater.controller.members.applied_waits import AppliedWaits
from highwater.controller.members.departures import GatewayDepartures
from highwater.controller.members.heartbeats import HeartbeatResult, NodeHeartbeat
from highwater.controller.store.port import StoreUnavailableError
from highwater.kafka.error_codes import ErrorCode
from highwater.model.block_overlaps import BlockOverlap
from highwater.model.cluster import ClusterDelta, ClusterImage, GatewayState, NodeState
from highwater.model.errors import LimitExceededError
from highwater.model.ids import NO_NODE, GatewayId, NodeId
from highwater.model.steps import Steps
from highwater.model.time import Clock
from highwater.runtime.logging import Logger

K = TypeVar("K")

DRAIN_WAIT_MS: Final = 300
"""How long a draining node's heartbeat waits for other members, well below its timeout."""

NODE_ID_MAX: Final = 10_000
"""Every node has a port of its own on every gateway, and ports are few."""

_NOT_NOW: Final = (StoreUnavailableError, LimitExceededError)
"""Errors of commits that may be retried later."""

_CHECK_MS_MIN: Final = 5
_CHECK_MS_MAX: Final = 250
_STALL_MS: Final = 1_000
"""If a check is this late, the controller itself stood still and took no heartbeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRules:
    """Times of sessions, in ms."""

    session_timeout_ms: int = 6_000
    stream_grace_ms: int = 500
    heartbeat_interval_ms: int = 1_000


class Members:
    """All members in one term. Sessions only end while `watch_sessions` runs."""

    def __init__(
        self,
        writer: MetadataWriter,
        elections: ElectionRules,
        sessions: SessionRules,
        clock: Clock,
        log: Logger,
        full: FullReplicas,
    ) -> None:
        """Gives all members in the store a fresh full session: they may all be alive.

        `full` is told what nodes say of their disks.
        """
        self._writer = writer
        self._elections = elections
        self._clock = clock
        self._log = log
        self._full = full
        times = (sessions.session_timeout_ms, sessions.stream_grace_ms)
        self.nodes: SessionTable[NodeId] = SessionTable(
            session_timeout_ms=times[0], stream_grace_ms=times[1]
        )
        self.gateways: SessionTable[GatewayId] = SessionTable(
            session_timeout_ms=times[0], stream_grace_ms=times[1]
        )
        self._overlaps: tuple[BlockOverlap, ...] = ()
        """Of gateways' blocks of ports; those that the log has."""
        self._registering = asyncio.Lock()
        self._superseded: dict[NodeId, int] = {}
        """Node epochs of incarnations that a registration replaces, from its first of two commits
        on: between the two, the image still names the former incarnation."""
        self._fenced_at: dict[NodeId, int] = {}
        self._drained_at: dict[NodeId, int] = {}
        """The revision at which draining nodes lost their leaderships."""
        self._departures = GatewayDepartures(
            writer, partial(self.wait_applied, timeout_ms=DRAIN_WAIT_MS), log
        )
        self._failed_log_dirs: dict[NodeId, tuple[str, ...]] = {}
        self._offline: dict[NodeId, OfflineReplicas] = {}
        """Replicas that live nodes cannot serve, from their heartbeats; not in the store."""
        self._waiting: set[NodeId] = set()
        """Nodes that wait for the gateway of their process if it is not registered."""
        self._applied = AppliedWaits(lambda: writer.image, self.nodes, self.gateways, log)
        self._wake = asyncio.Event()
        now_ms = clock.monotonic_ms()
        image = writer.image
        for node in image.nodes.values():
            if node.fenced:
                self._fenced_at[node.node_id] = image.revision
            else:
                self.nodes.open(node.node_id, epoch=node.node_epoch, now_ms=now_ms, confirmed=False)
        for gateway_id in image.gateways:
            self.gateways.open(gateway_id, epoch=0, now_ms=now_ms, confirmed=False)

    @property
    def offline(self) -> OfflineByNode:
        """Replicas that live nodes cannot serve."""
        return self._offline

    async def register_node(self, wanted: Registration, cluster_id: str) -> NodeState | Refusal:
        """Admits an incarnation, fenced until it has applied the image."""
        if cluster_id and cluster_id != self._writer.image.cluster_id:
            return _refusal(
                ErrorCode.INCONSISTENT_CLUSTER_ID, "the node's data is another cluster's"
            )
        if not NO_NODE <= wanted.node_id <= NODE_ID_MAX:
            return _refusal(ErrorCode.INVALID_REQUEST, f"node ids are within 0 and {NODE_ID_MAX}")
        async with self._registering:
            return await self._register(wanted)

    async def register_gateway(self, gateway: GatewayState) -> Refusal | None:
        """Registers a gateway; one that registers again replaces itself."""

        def decide(image: ClusterImage) -> Decision[Refusal | None]:
            why = node_without_port(image.nodes, [gateway])
            if why is not None:
                return unchanged(_refusal(ErrorCode.INVALID_REQUEST, why))
            if image.gateways.get(gateway.gateway_id) == gateway:
                return Decision(delta=None, result=None)
            delta = ClusterDelta(revision=PENDING_REVISION, gateways=(gateway,))
            return Decision(delta=delta, result=None)

        refused, _ = await self._writer.commit(decide)
        if refused is not None:
            return refused
        self.gateways.open(gateway.gateway_id, epoch=0, now_ms=self._clock.monotonic_ms())
        self._departures.over(gateway.gateway_id)
        self._log.info("gateway_registered", gateway=gateway.gateway_id)
        self._tell_overlaps()
        return None

    async def heartbeat(self, beat: NodeHeartbeat) -> HeartbeatResult:
        """Keeps a node's session; unfences the node once it has applied its registration."""
        refusal = self.check_epoch(beat.node_id, beat.node_epoch)
        if refusal is not None:
            return HeartbeatResult(refusal=refusal)
        if self.nodes.get(beat.node_id) is None:
            self.nodes.open(beat.node_id, epoch=beat.node_epoch, now_ms=self._clock.monotonic_ms())
        self._heard(self.nodes, beat.node_id, beat.applied_revision)
        self._waiting.discard(beat.node_id)
        if beat.waits_for_gateway:
            self._waiting.add(beat.node_id)
        if beat.failed_log_dirs != self._failed_log_dirs.get(beat.node_id, ()):
            self._failed_log_dirs[beat.node_id] = beat.failed_log_dirs
            self._log.warning("log_dirs_failed", node=beat.node_id, dirs=beat.failed_log_dirs)
        self._full.note(beat.node_id, beat.full_replicas)
        may_shut_down = False
        # Each of them may commit, and wait for commits of others, which may remove the node.
        for follow in (self._note_offline, self._follow_wishes, self._may_shut_down):
            may_shut_down = bool(await follow(beat))
            if (refusal := self.check_epoch(beat.node_id, beat.node_epoch)) is not None:
                return HeartbeatResult(refusal=refusal)
        fenced = self._writer.image.nodes[beat.node_id].fenced
        return HeartbeatResult(fenced=fenced, may_shut_down=may_shut_down)

    async def gateway_heartbeat(
        self, gateway_id: GatewayId, applied_revision: int, *, wants_shutdown: bool = False
    ) -> HeartbeatResult:
        """Keeps a gateway's session. If it wants to stop, clients get other gateways from now on."""
        if self.gateways.get(gateway_id) is None:
            refusal = _refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, "the gateway is not registered")
            return HeartbeatResult(refusal=refusal)
        self._heard(self.gateways, gateway_id, applied_revision)
        if not wants_shutdown:
            return HeartbeatResult(may_shut_down=False)
        may_shut_down = await self._departures.leaves(gateway_id, applied_revision)
        self._tell_overlaps()  # If it comes back, that is told again.
        return HeartbeatResult(may_shut_down=may_shut_down)

    async def wait_applied(self, revision: int, timeout_ms: int) -> bool:
        """Waits until all live members have applied the revision; False on timeout."""
        return await self._applied.wait(revision, timeout_ms)

    def stream_opened(self, node: NodeId, node_epoch: int, gateway: GatewayId) -> bool:
        """Counts a watch stream of a node or gateway; True if it counts for a session."""
        if node != NO_NODE:
            return self.nodes.stream_opened(node, epoch=node_epoch)
        return bool(gateway) and self.gateways.stream_opened(gateway, epoch=0)

    def stream_closed(self, node: NodeId, node_epoch: int, gateway: GatewayId) -> None:
        """A stream that counted ended."""
        now_ms = self._clock.monotonic_ms()
        if node != NO_NODE:
            self.nodes.stream_closed(node, epoch=node_epoch, now_ms=now_ms)
        else:
            self.gateways.stream_closed(gateway, epoch=0, now_ms=now_ms)
        self._wake.set()

    async def close_ended(self, is_refused: IsRefused) -> None:
        """Ends sessions of dead nodes whose end no stream has shown, for ever."""

        def nodes() -> Mapping[NodeId, NodeState]:
            return self._writer.image.nodes

        await close_ended(self.nodes, nodes, self._clock, is_refused, self._wake.set)

    async def watch_sessions(self) -> None:
        """Fences members whose sessions run out, for ever."""
        last_ms = self._clock.monotonic_ms()
        while True:
            planned_ms = self._pause_ms(last_ms)
            self._wake.clear()
            try:
                async with asyncio.timeout(planned_ms / 1000):
                    await self._wake.wait()
            except TimeoutError:
                pass  # No other task woke this one, but sessions may have run out.
            now_ms = self._clock.monotonic_ms()
            late_ms = now_ms - last_ms - planned_ms
            if late_ms > _STALL_MS:
                self._log.warning("controller_stalled", stalled_ms=late_ms)
                self.nodes.forgive(late_ms)
                self.gateways.forgive(late_ms)
            try:
                await self._end_sessions(now_ms)
            except _NOT_NOW as error:
                self._log.warning("cannot_fence", error=str(error))
                await asyncio.sleep(_CHECK_MS_MAX / 1000)
            # Heartbeats are taken during a commit, so its time does not count as a stall.
            last_ms = self._clock.monotonic_ms()

    async def _register(self, wanted: Registration) -> NodeState | Refusal:
        image = self._writer.image
        node_id = id_for(image, wanted)
        before = image.nodes.get(node_id)
        now_ms = self._clock.monotonic_ms()
        if before is not None and before.incarnation == wanted.incarnation:
            self._superseded.pop(node_id, None)  # The replacement did not complete.
            self.nodes.open(node_id, epoch=before.node_epoch, now_ms=now_ms)
            return before
        whole = True
        if before is not None:
            successor = same_place(before, wanted)
            if not self.nodes.may_be_replaced(node_id, now_ms, by_successor=successor):
                return _refusal(
                    ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                    f"node id {node_id} is in use by a live node at {before.address}",
                )
            # First the old incarnation loses its leaderships, then the new one exists. The new one
            # reports its offline replicas before it may lead.
            self._superseded[node_id] = before.node_epoch
            self._offline.pop(node_id, None)
            whole = has_its_tail(before, wanted.lineage)
            await self._writer.commit_in_steps(
                lambda image: changing_nodes(
                    image,
                    # Unless somebody has removed it meanwhile: then it is registered anew.
                    [fence(image.nodes[node_id])] if node_id in image.nodes else [],
                    self._elections,
                    index=self._writer.index,
                    lost_tail=frozenset() if whole else frozenset({node_id}),
                    offline=self._offline,
                )
            )
        admitted, _ = await self._writer.commit(lambda image: admit(image, wanted))
        if isinstance(admitted, Refusal):
            return admitted
        node = self._writer.image.nodes.get(node_id := admitted)
        if node is None:  # A removal was carried out right behind.
            return _refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"node {node_id} was removed")
        self.nodes.open(node_id, epoch=node.node_epoch, now_ms=self._clock.monotonic_ms())
        self._fenced_at[node_id] = node.node_epoch
        self._drained_at.pop(node_id, None)  # The drain of the former incarnation.
        self._log.info(
            "node_registered", node=node_id, node_epoch=node.node_epoch, tail_lost=not whole
        )
        self._tell_overlaps()
        return node

    def _heard(self, table: SessionTable[K], member: K, applied_revision: int) -> None:
        now_ms = self._clock.monotonic_ms()
        table.heard(member, now_ms=now_ms, applied_revision=applied_revision)
        if applied_revision >= self._writer.image.revision:
            table.caught_up(member, now_ms=now_ms)
        self._applied.check()

    def _tell_overlaps(self) -> None:
        """To refuse a gateway would not help: it may be the one that was there first."""
        image = self._writer.image
        met = overlaps_met(image.nodes, image.gateways.values())
        for overlap in met:
            if overlap not in self._overlaps:
                self._log.warning("gateway_ports_overlap", reason=str(overlap))
        self._overlaps = met

    def check_epoch(self, node_id: NodeId, node_epoch: int) -> Refusal | None:
        """Why a node's call must be refused, or None."""
        node = self._writer.image.nodes.get(node_id)
        if node is None:
            return _refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no node {node_id}")
        if node.node_epoch != node_epoch:
            return _refusal(ErrorCode.STALE_BROKER_EPOCH, f"node epoch is {node.node_epoch}")
        if self._superseded.get(node_id) == node_epoch:
            return _refusal(ErrorCode.STALE_BROKER_EPOCH, "another incarnation replaces the node")
        return None

    async def _note_offline(self, beat: NodeHeartbeat) -> None:
        """Takes leaderships from a node that cannot serve them; gives them back when it can."""
        known = self._offline.get(beat.node_id, {})
        if beat.offline_replicas == known:
            return
        self._offline[beat.node_id] = beat.offline_replicas
        if self._writer.image.nodes[beat.node_id].fenced:
            return  # It leads nothing; elections follow when it is unfenced.
        elected = False
        try:
            elections, _ = await self._writer.commit_in_steps(
                lambda image: self._with_elections(image, ())
            )
            elected = True
        except _NOT_NOW as error:
            self._log.warning("cannot_elect", node=beat.node_id, error=str(error))
            return
        finally:
            # The node may have cancelled this heartbeat: its next one tries again.
            if not elected and self._offline.get(beat.node_id) is beat.offline_replicas:
                self._offline[beat.node_id] = known
        partitions = sum(len(numbers) for numbers in beat.offline_replicas.values())
        self._log.warning(
            "replicas_offline", node=beat.node_id, partitions=partitions, elections=elections
        )

    async def _follow_wishes(self, beat: NodeHeartbeat) -> None:
        node = self._writer.image.nodes[beat.node_id]
        try:
            if node.fenced and self._may_be_unfenced(self._writer.image, beat):
                await self._change(beat, unfence_first=True)
            # A replica may have joined the ISR of a partition that no other node could lead before.
            if beat.wants_shutdown and (not node.draining or self._movable(beat.node_id)):
                await self._change(beat, unfence_first=False)
        except _NOT_NOW as error:
            # The session goes on; the next heartbeat tries again.
            self._log.warning("cannot_change_node", node=beat.node_id, error=str(error))

    def _may_be_unfenced(self, image: ClusterImage, beat: NodeHeartbeat) -> bool:
        """True if the node knows that it was fenced, and does not wait for the gateway of its process."""
        if beat.applied_revision < self._fenced_at.get(beat.node_id, 0):
            return False
        now_ms = self._clock.monotonic_ms()
        return not beat.waits_for_gateway or any(
            gateway.node_id == beat.node_id and self.gateways.is_live(gateway_id, now_ms)
            for gateway_id, gateway in image.gateways.items()
        )

    async def _change(self, beat: NodeHeartbeat, *, unfence_first: bool) -> None:
        """Unfences or drains the node, unless it was registered again meanwhile, or its gateway has gone."""
        node_id = beat.node_id
        changed = False

        def decide(image: ClusterImage) -> Steps[Decision[int]]:
            nonlocal changed
            changed = self.check_epoch(node_id, beat.node_epoch) is None and (
                not unfence_first or self._may_be_unfenced(image, beat)
            )
            if not changed:
                return self._with_elections(image, ())
            node = image.nodes[node_id]
            return self._with_elections(image, (unfence(node) if unfence_first else drain(node),))

        elections, revision = await self._writer.commit_in_steps(decide)
        if not changed:
            return
        if not unfence_first:
            self._drained_at[node_id] = revision
        what = "node_unfenced" if unfence_first else "node_draining"
        self._log.info(what, node=node_id, elections=elections)

    async def _may_shut_down(self, beat: NodeHeartbeat) -> bool:
        """True if a draining node leads nothing that others could lead, and all members know that.

        A node that ended earlier would still get requests. The wait for the others is brief: the
        node's next heartbeat may be a second away, and the node limits its own wait.
        """
        image = self._writer.image
        if not image.nodes[beat.node_id].draining or self._movable(beat.node_id):
            return False
        revision = self._drained_at.setdefault(beat.node_id, image.revision)
        if beat.applied_revision < revision:
            return False  # Not resigned yet; its next heartbeat follows at once when it has.
        return await self.wait_applied(revision, DRAIN_WAIT_MS)

    def _with_elections(
        self, image: ClusterImage, changed: Sequence[NodeState]
    ) -> Steps[Decision[int]]:
        """The changed nodes and the elections that follow; the number of elections."""
        return changing_nodes(
            image, changed, self._elections, index=self._writer.index, offline=self._offline
        )

    def _movable(self, node: NodeId) -> bool:
        return has_movable_leadership(self._writer.image, self._writer.index, node)

    async def _end_sessions(self, now_ms: int) -> None:
        dead = self.nodes.expired(now_ms)
        if dead:
            epochs = {node: session.epoch for node in dead if (session := self.nodes.get(node))}

            def decide(image: ClusterImage) -> Steps[Decision[int]]:
                # A node may have registered again, or sent a heartbeat, before this decision.
                at_ms = self._clock.monotonic_ms()
                fenced = [
                    fence(image.nodes[node])
                    for node, epoch in epochs.items()
                    if node in image.nodes
                    and image.nodes[node].node_epoch == epoch
                    and not self.nodes.is_live(node, at_ms)
                ]
                return self._with_elections(image, fenced)

            elections, revision = await self._writer.commit_in_steps(decide)
            now_ms = self._clock.monotonic_ms()
            for node, epoch in epochs.items():
                session, state = self.nodes.get(node), self._writer.image.nodes.get(node)
                if session is None or session.epoch != epoch:
                    continue  # The session belongs to another incarnation by now.
                if state is not None and state.node_epoch == epoch:
                    if not state.fenced:
                        continue  # It sent a heartbeat before this was decided.
                    self._fenced_at[node] = revision
                # A member that was heard since then keeps its session, and is unfenced again.
                if not self.nodes.is_live(node, now_ms):
                    self.nodes.end(node)
            self._log.warning("nodes_fenced", nodes=dead, elections=elections)
        gone = [g for g in self.gateways.expired(now_ms) if not self._is_missed(g)]
        if gone:

            def remove(image: ClusterImage) -> Decision[frozenset[GatewayId]]:
                at_ms = self._clock.monotonic_ms()
                ended = frozenset(g for g in gone if not self.gateways.is_live(g, at_ms))
                # One that has said that it stops is not in the image any more.
                removed = ended & image.gateways.keys()
                delta = ClusterDelta(revision=PENDING_REVISION, removed_gateways=removed)
                return Decision(delta=delta if removed else None, result=ended)

            ended, _ = await self._writer.commit(remove)
            for gateway in ended:
                self.gateways.end(gateway)
                self._departures.over(gateway)
            self._log.info("gateways_gone", gateways=sorted(ended))
            self._tell_overlaps()  # If one of these comes back, that is told again.
        if dead or gone:
            self._applied.check()

    def _is_missed(self, gateway: GatewayId) -> bool:
        """True if a live node waits for this gateway of its process: it would get another one's address."""
        image = self._writer.image
        state = image.gateways.get(gateway)
        node = None if state is None else image.nodes.get(state.node_id)
        if state is None or node is None or node.fenced or node.node_id not in self._waiting:
            return False
        own = [g for g, other in image.gateways.items() if other.node_id == state.node_id]
        return own == [gateway]  # Else the process has come back under another name.

    def _pause_ms(self, now_ms: int) -> int:
        deadlines = (self.nodes.next_deadline_ms(), self.gateways.next_deadline_ms())
        pauses = [deadline - now_ms for deadline in deadlines if deadline is not None]
        return max(_CHECK_MS_MIN, min([_CHECK_MS_MAX, *pauses]))


def _refusal(code: ErrorCode, message: str) -> Refusal:
    return Refusal(code=code, message=message)
