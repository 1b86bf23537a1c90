"""The controller over its real decisions, with a store that commits at once or stalls.

Its shell, `highwater.controller.members.members` and `active`, is asyncio; this one is a simulated
process that calls the same pure functions in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from highwater.controller.core.alter_reassignments import Reassignment
from highwater.controller.core.change_isr import Proposal
from highwater.controller.core.change_leader import elect_preferred
from highwater.controller.core.election import Candidates
from highwater.controller.core.hand_over import finish_moves, waiting_moves
from highwater.controller.core.liveness import SessionTable
from highwater.controller.core.membership import (
    ElectionRules,
    Registration,
    drain,
    fence,
    has_movable_leadership,
    register,
    unfence,
)
from highwater.controller.core.offline_replicas import OfflineReplicas
from highwater.controller.core.outcome import PENDING_REVISION, Decision
from highwater.controller.core.partition_index import index_of
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import (
    ClusterDelta,
    ClusterImage,
    NodeState,
    PartitionState,
    TopicState,
)
from highwater.model.ids import InstanceId, LeaderEpoch, NodeId, TopicId
from highwater.partition.core import replica_effects as effect
from highwater.partition.core.replica_events import IsrAnswered
from tests.sim.hand_overs import HandOvers
from tests.sim.network import CONTROLLER, GATEWAY

if TYPE_CHECKING:
    from tests.sim.world import World

TOPIC = TopicId(b"t" * 16)
FAILED: OfflineReplicas = {TOPIC: frozenset({0})}
"""What a node's heartbeats say whose log has failed."""
CHECK_EVERY_MS = 60
INBOX_MAX = 500


@dataclass(frozen=True, slots=True)
class Published:
    """What nodes and gateways get of an image."""

    revision: int
    partition: PartitionState
    min_isr: int
    shunned: frozenset[int]
    """Fenced or draining nodes."""
    node_epochs: Mapping[int, int]


class SimController:
    """The active controller; `fail_over` makes it another one over the same store."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.incarnation = 0
        self.paused = False
        """True while the metadata store stalls."""
        self.inbox: list[tuple[str, tuple[Any, ...]]] = []
        self.min_isr = world.options.min_isr
        self.boot_ids: dict[int, str] = {}
        self.fenced_at: dict[int, int] = {}
        self.offline: dict[NodeId, OfflineReplicas] = {}
        """What live nodes cannot serve; each new controller hears it anew."""
        self.last_sent_ms: dict[int, int] = {}
        """By node, when it sent the latest of its heartbeats that came."""
        self.rules = ElectionRules(
            min_isr=lambda _: self.min_isr, unclean=lambda _: world.options.unclean
        )
        self.sessions = self._new_sessions()
        self.hand_overs = HandOvers(self)
        replicas = tuple(map(NodeId, world.nodes[: world.options.replicas]))
        partition = PartitionState(
            partition=0,
            leader=NodeId(-1),
            leader_epoch=LeaderEpoch(0),
            partition_epoch=0,
            replicas=replicas,
            isr=replicas,
            last_known_leader=replicas[0],
        )
        topic = TopicState(
            topic_id=TOPIC, instance=InstanceId("default"), name="t", partitions=(partition,)
        )
        self.image = ClusterImage(revision=1, cluster_id="sim", topics={TOPIC: topic})
        self.published = self._publish()

    @property
    def partition(self) -> PartitionState:
        return self.image.topics[TOPIC].partitions[0]

    # ---- what arrives ----

    def on_register(
        self, node: int, incarnation: int, lineage: tuple[str, ...], boot_id: str
    ) -> None:
        node_id = NodeId(node)
        now = self.world.now
        before = self.image.nodes.get(node_id)
        if before is not None and before.incarnation == str(incarnation):
            self.sessions.open(node_id, epoch=before.node_epoch, now_ms=now)
            self._registered(node, incarnation, before.node_epoch)
            return
        if before is not None:
            if int(before.incarnation) > incarnation:
                return  # A late request of a process that is gone.
            # A process that starts here has the disk of the one before.
            if not self.sessions.may_be_replaced(node_id, now, by_successor=True):
                return
            whole = self.world.bug.has_its_tail(
                before, lineage, self.boot_ids.get(node, ""), boot_id
            )
            self.offline.pop(node_id, None)
            lost = frozenset() if whole else frozenset({node_id})
            self.world.observer.doubted = lost
            self._elect(fence(self.image.nodes[node_id]), lost_tail=lost)
            self.world.observer.doubted = frozenset()
        wanted = Registration(
            node_id=node_id,
            address=f"host{node}:1",
            rack="",
            incarnation=str(incarnation),
            log_dirs=("/data",),
            previous_node_epoch=-1,
            lineage=lineage,
        )
        self.commit(register(wanted))
        self.boot_ids[node] = boot_id
        self.world.observer.registered(node, incarnation)
        epoch = self.image.nodes[node_id].node_epoch
        self.fenced_at[node] = epoch
        self.sessions.open(node_id, epoch=epoch, now_ms=now)
        self.sessions.stream_opened(node_id, epoch=epoch)
        self._registered(node, incarnation, epoch)

    def _registered(self, node: int, incarnation: int, epoch: int) -> None:
        send = self.world.network.send
        send(CONTROLLER, node, "on_registered", (epoch,), incarnation=incarnation)
        send(CONTROLLER, node, "on_image", (self.published,), incarnation=incarnation)

    def on_heartbeat(
        self,
        node: int,
        node_epoch: int,
        revision: int,
        stop: bool,
        failed: tuple[int, bool],
    ) -> None:
        """`failed` is when the node sent this, and whether its log had failed then."""
        node_id = NodeId(node)
        state = self.image.nodes.get(node_id)
        if state is None or node_epoch > state.node_epoch:
            return
        send = self.world.network.send
        if state.node_epoch != node_epoch:
            send(CONTROLLER, node, "on_stale", (node_epoch,))
            return
        now = self.world.now
        if self.sessions.get(node_id) is None:
            self.sessions.open(node_id, epoch=node_epoch, now_ms=now)
        self.sessions.heard(node_id, now_ms=now, applied_revision=revision)
        # Real heartbeats do not pass each other; here they may take different times.
        if failed[0] > self.last_sent_ms.get(node, -1):
            self.last_sent_ms[node] = failed[0]
            self._note_offline(state, FAILED if failed[1] else {})
        state = self.image.nodes[node_id]
        if state.fenced and revision >= self.fenced_at.get(node, 0):
            self._elect(unfence(state))
        state = self.image.nodes[node_id]
        if stop and not state.draining:
            self._elect(drain(state))
        state = self.image.nodes[node_id]
        if state.draining and not has_movable_leadership(self.image, index_of(self.image), node_id):
            send(CONTROLLER, node, "on_may_stop", ())
        if revision < self.image.revision:
            send(CONTROLLER, node, "on_image", (self.published,))

    def _note_offline(self, node: NodeState, offline: OfflineReplicas) -> None:
        if self.offline.get(node.node_id, {}) != offline:
            self.offline[node.node_id] = offline
            if not node.fenced:
                self._elect()

    def on_stream_closed(self, node: int, node_epoch: int) -> None:
        if self.sessions.streams(NodeId(node), node_epoch):
            self.sessions.stream_closed(NodeId(node), epoch=node_epoch, now_ms=self.world.now)

    def on_alter_partition(
        self, node: int, incarnation: int, node_epoch: int, wanted: effect.ProposeIsr
    ) -> None:
        state = self.image.nodes.get(NodeId(node))
        if state is None or state.node_epoch != node_epoch:
            answer = IsrAnswered(attempt=wanted.attempt, error_code=ErrorCode.STALE_BROKER_EPOCH)
        else:
            answer = self._alter(node, wanted)
        self.world.network.send(
            CONTROLLER, node, "on_isr_answer", (answer,), incarnation=incarnation, repeatable=True
        )

    def _alter(self, node: int, wanted: effect.ProposeIsr) -> IsrAnswered:
        proposal = Proposal(
            topic_id=TOPIC,
            partition=0,
            leader_epoch=wanted.leader_epoch,
            partition_epoch=wanted.partition_epoch,
            isr=wanted.isr,
            isr_node_epochs=wanted.node_epochs,
        )
        decision = self.world.bug.alter_partitions(
            self.image,
            NodeId(node),
            [proposal],
            self.rules.min_isr,
            offline=self.offline,
            leader_first=True,
        )
        result = decision.result[0]
        if result.refusal is None:
            # A replica that joins may lead at once, if that completes a reassignment.
            self.world.observer.joining = frozenset(wanted.isr)
        self.commit(decision)
        self.world.observer.joining = frozenset()
        after = result.state
        assert after is not None
        return IsrAnswered(
            attempt=wanted.attempt,
            error_code=0 if result.refusal is None else result.refusal.code,
            leader_epoch=after.leader_epoch,
            partition_epoch=after.partition_epoch,
            isr=after.isr,
        )

    # ---- time ----

    def tick(self) -> None:
        """Fences those whose sessions ran out."""
        if not self.paused:
            dead = [n for n in self.sessions.expired(self.world.now) if n in self.image.nodes]
            if dead:
                self._elect(*(fence(self.image.nodes[n]) for n in dead))
                for node in dead:
                    self.fenced_at[node] = self.image.revision
                    self.sessions.end(node)
            self.hand_overs.finish_moves()
            if self.world.rng.random() < 0.1:
                # A watch that broke is opened again.
                self.world.network.send(CONTROLLER, GATEWAY, "on_image", (self.published,))
        self.world.after(CHECK_EVERY_MS, self.tick)

    # ---- requests of administrators ----

    def change_min_isr(self, value: int) -> None:
        self.min_isr = value
        self._replace_partition(self.world.bug.after_min_isr_change(self.partition, min_isr=value))

    def prefer(self) -> None:
        """Asks the present leader first; elects without it if it is silent."""
        self.hand_overs.carry_out(self._prefers)

    def on_handed_over(self, node: int, leader_epoch: int, ready: bool) -> None:
        if not self.paused:
            self.hand_overs.answered(node, leader_epoch, ready=ready)

    def finished_moves(self) -> Decision[int]:
        """The move completed, if nothing but its leader is in the way."""
        keys = list(waiting_moves(self.image))
        return finish_moves(self.image, keys, self.rules, self.offline)

    def _prefers(self) -> Decision[None]:
        after = self._preferred()
        delta = None
        if after is not None:
            delta = ClusterDelta(revision=PENDING_REVISION, partitions={TOPIC: (after,)})
        return Decision(delta=delta, result=None)

    def _preferred(self) -> PartitionState | None:
        nodes = self.image.nodes.values()
        candidates = Candidates(
            alive=frozenset(
                n.node_id for n in nodes if not n.fenced and not self.offline.get(n.node_id)
            ),
            draining=frozenset(n.node_id for n in nodes if n.draining),
        )
        return elect_preferred(self.partition, candidates)

    def reassign(self, target: tuple[int, ...] | None) -> None:
        """Lets the partition move, or with None calls it back; refused as the real one would."""
        wanted = [Reassignment(topic_id=TOPIC, partition=0, replicas=target)]
        topic = self.image.topics[TOPIC]
        decision = self.world.bug.alter_reassignments(
            self.image,
            topic.instance,
            wanted,
            self.rules,
            offline=self.offline,
            leader_first=True,
        )
        self.commit(decision)

    def stall(self) -> None:
        self.paused = True

    def resume(self) -> None:
        """What waited is carried out; sessions do not suffer for what nobody heard."""
        self.paused = False
        for node in self.image.nodes:
            session = self.sessions.get(node)
            if session is not None:
                session.heard_ms = self.world.now
        waiting, self.inbox = self.inbox, []
        for name, args in waiting:
            getattr(self, name)(*args)

    def fail_over(self) -> None:
        """A new active controller: requests under way are lost, all sessions begin again."""
        self.incarnation += 1
        self.paused = False
        self.inbox = []
        self.hand_overs.forget()
        self.sessions = self._new_sessions()
        for node in self.image.nodes.values():
            if not node.fenced:
                self.sessions.open(
                    node.node_id, epoch=node.node_epoch, now_ms=self.world.now, confirmed=False
                )
        self.offline = {}
        self._elect()

    # ---- commits ----

    def commit(self, decision: Decision[Any]) -> None:
        if decision.delta is None:
            return
        revision = self.image.revision + 1
        nodes = tuple(
            replace(n, node_epoch=revision) if n.node_epoch == PENDING_REVISION else n
            for n in decision.delta.nodes
        )
        before = self.partition
        self.image = self.image.apply(replace(decision.delta, revision=revision, nodes=nodes))
        if self.partition is not before:
            self.world.observer.partition_changed(before, self.partition)
        self.published = self._publish()
        send = self.world.network.send
        for node in self.world.nodes:
            send(CONTROLLER, node, "on_image", (self.published,))
        send(CONTROLLER, GATEWAY, "on_image", (self.published,))
        self.world.gateways.published(self.published)

    def _elect(self, *changed: NodeState, lost_tail: frozenset[NodeId] = frozenset()) -> None:
        decision = self.world.bug.change_nodes(
            self.image, changed, self.rules, lost_tail=lost_tail, offline=self.offline
        )
        self.commit(decision)

    def _replace_partition(self, after: PartitionState) -> None:
        delta = ClusterDelta(revision=PENDING_REVISION, partitions={TOPIC: (after,)})
        self.commit(Decision(delta=delta, result=None))

    def _publish(self) -> Published:
        nodes = self.image.nodes.values()
        return Published(
            self.image.revision,
            self.partition,
            self.min_isr,
            frozenset(int(n.node_id) for n in nodes if n.fenced or n.draining),
            {int(n.node_id): n.node_epoch for n in nodes},
        )

    def _new_sessions(self) -> SessionTable[NodeId]:
        options = self.world.options
        return SessionTable(session_timeout_ms=options.session_ms, stream_grace_ms=options.grace_ms)
