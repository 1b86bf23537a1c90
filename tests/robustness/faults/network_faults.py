"""Faults of the network between nodes, and between nodes and all other processes."""

from __future__ import annotations

import time
from dataclasses import dataclass

from highwater.kafka.error_codes import ErrorCode
from tests.conformance.protocol.requests import batch, produce
from tests.robustness.faults.fault import SESSION_S, Fault, Scene
from tests.robustness.faults.process_faults import SILENT_PAUSE_S_MAX
from tests.support import node_network
from tests.support.kafka_admin import make_replicated_topic
from tests.support.node_network import NodeNetwork
from tests.support.process import wait_until
from tests.support.replicated.hosts import NodeHosts
from tests.support.replicated.shape import Shape
from tests.support.wire import RawConnection

UNTOUCHED_S_MAX = 1.0
"""Nothing that the data needs is away; a leader that moves while it is heard takes a tenth."""
_TAKEN = {0}
LAG_S = 10.0
"""replica.lag.time.max.ms: how long a silent follower stays in the ISR."""


class NetworkFault(Fault):
    """Nodes run in network namespaces; `heal` removes their rules."""

    def __init__(self) -> None:
        self.network = NodeNetwork()

    def probe(self) -> str | None:
        return node_network.missing()

    def hosts(self) -> NodeHosts:
        return self.network

    def heal(self, scene: Scene) -> None:
        self.network.heal()

    def everybody(self, scene: Scene, node: int) -> list[str]:
        """The addresses of all that the node speaks with."""
        return [self.network.outside, *self.nodes(scene, node)]

    def nodes(self, scene: Scene, node: int) -> list[str]:
        """The addresses of the other nodes."""
        return [self.network.address(other) for other in scene.others(node)]


class CutOffLeader(NetworkFault):
    """A leader is cut off from all others."""

    id = "F9"
    title = "a leader is cut off from everybody"
    pause_s_max = SILENT_PAUSE_S_MAX

    def inject(self, scene: Scene) -> None:
        scene.victim = scene.leader()
        peers = self.everybody(scene, scene.victim)
        self.network.cut_incoming(scene.victim, peers)
        self.network.cut_outgoing(scene.victim, peers)
        took_s = scene.wait_led_by_others(scene.victim)
        scene.note(f"node {scene.victim} cut off, others lead after {took_s:.2f} s")
        scene.progress()


class MuteLeader(NetworkFault):
    """A leader receives packets, and all that it sends is lost."""

    id = "F10"
    title = "a leader hears and cannot speak"
    pause_s_max = SILENT_PAUSE_S_MAX

    def inject(self, scene: Scene) -> None:
        scene.victim = scene.leader()
        self.network.cut_outgoing(scene.victim, self.everybody(scene, scene.victim))
        took_s = scene.wait_led_by_others(scene.victim)
        scene.note(f"node {scene.victim} mute, others lead after {took_s:.2f} s")
        scene.progress()


class LeaderWithoutFollowers(NetworkFault):
    """A leader reaches controller and clients, but no other node: the ISR shrinks to itself.

    With min.insync.replicas 2 it acknowledges nothing until they are back.
    """

    id = "F11"
    title = "a leader sees the controller and no follower"
    pause_s_max = None

    def inject(self, scene: Scene) -> None:
        scene.victim = scene.leader()
        led = [p.partition for p in scene.view().values() if p.leader == scene.victim]
        begun = time.monotonic()
        peers = self.nodes(scene, scene.victim)
        self.network.cut_incoming(scene.victim, peers)
        self.network.cut_outgoing(scene.victim, peers)
        history = scene.workload.history
        before = {p: len(history.acknowledged[p]) for p in led}
        scene.wait(
            lambda parts: all(parts[p].isr == {scene.victim} for p in led), 3 * LAG_S, "ISRs of one"
        )
        scene.note(f"ISR of one after {time.monotonic() - begun:.1f} s")
        time.sleep(2)
        after = {p: len(history.acknowledged[p]) for p in led}
        # Answers that were on their way when the cut came may still have arrived.
        late = {p: after[p] - before[p] for p in led}
        assert all(count <= 50 for count in late.values()), f"acknowledged by one alone: {late}"


class LeaderWithoutController(NetworkFault):
    """A leader reaches its followers and clients, but no controller: another one is elected.

    Until then it goes on with its current ISR.
    """

    id = "F12"
    title = "a leader sees its followers and no controller"
    pause_s_max = UNTOUCHED_S_MAX

    def inject(self, scene: Scene) -> None:
        scene.victim = scene.leader()
        for port in scene.cluster.ports.controllers.values():
            self.network.cut_port(scene.victim, port)
        took_s = scene.wait_led_by_others(scene.victim)
        scene.note(f"others lead after {took_s:.2f} s")
        scene.progress()


class LeadersWithoutSession(Fault):
    """No leader reaches a controller, and acks=1 needs a session (`acks_1_needs_session`).

    The controllers are stopped: a running one would elect other leaders for nodes that are cut off.
    """

    id = "F12-acks-1"
    title = "leaders without a session take acks=all alone"
    pause_s_max = UNTOUCHED_S_MAX
    shape = Shape(settings={"partition": {"acks_1_needs_session": "true"}})

    def inject(self, scene: Scene) -> None:
        self._topic = make_replicated_topic(scene.cluster.bootstrap, "acks-1", partitions=3)
        # Not of the load's topic, whose records are numbered.
        assert self._codes(scene) == _TAKEN
        before = {p.partition: (p.leader, p.leader_epoch) for p in scene.view().values()}
        scene.begun_s = begun = time.monotonic()
        for name in self._controllers(scene):
            scene.cluster.pause(name)
        time.sleep(SESSION_S / 2)
        assert self._codes(scene) == _TAKEN, "a session lasts longer"
        time.sleep(max(0.0, begun + SESSION_S + 0.5 - time.monotonic()))
        for _ in range(5):
            assert self._codes(scene) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
            assert self._codes(scene, acks=-1) == _TAKEN
            scene.progress(timeout_s=5)
        after = {p.partition: (p.leader, p.leader_epoch) for p in scene.view().values()}
        assert after == before, "nobody can have been elected"
        scene.note(f"acks=1 refused after {SESSION_S + 0.5:.1f} s, acks=all taken")

    def heal(self, scene: Scene) -> None:
        for name in self._controllers(scene):
            scene.cluster.resume(name)
        wait_until(lambda: self._codes(scene) == _TAKEN, timeout_s=30, what="acks=1 is taken again")

    def _controllers(self, scene: Scene) -> list[str]:
        return [name for name in scene.cluster.names if name.startswith("controller")]

    def _codes(self, scene: Scene, acks: int = 1) -> set[int]:
        """Writes one record to each partition, once; returns the error codes."""
        with RawConnection.to(scene.cluster.bootstrap) as connection:
            begun = time.monotonic()
            codes = {
                produce(
                    connection, self._topic, batch([b"unnumbered"]), partition=number, acks=acks
                ).error_code
                for number in range(3)
            }
            assert time.monotonic() - begun < 2, "no gateway holds what is refused"
            return codes


@dataclass
class PacketLoss(NetworkFault):
    """Every twentieth packet to the nodes is lost, for a while."""

    seconds: float = 20.0
    share: float = 0.05

    id = "F36"
    title = "packet loss"
    pause_s_max = SESSION_S

    def __post_init__(self) -> None:
        super().__init__()

    def inject(self, scene: Scene) -> None:
        for node in scene.cluster.node_ids:
            self.network.lose(node, self.share)
        until = time.monotonic() + self.seconds
        while time.monotonic() < until:
            scene.progress(timeout_s=30)
        lost = {node: self.network.dropped(node) for node in scene.cluster.node_ids}
        scene.note(f"{self.share:.0%} of the packets lost for {self.seconds:.0f} s, by node {lost}")
        assert all(lost.values()), "or this has shown nothing"


@dataclass
class PacketDisorder(NetworkFault):
    """Packets to and from nodes come twice, after the next one, or up to 100 ms late."""

    seconds: float = 20.0

    id = "F36-packets"
    title = "packets come twice, out of order and late"
    pause_s_max = SESSION_S

    def __post_init__(self) -> None:
        super().__init__()

    def probe(self) -> str | None:
        return node_network.disorder_missing()

    def inject(self, scene: Scene) -> None:
        self.network.disorder(scene.chance.getrandbits(32))
        until = time.monotonic() + self.seconds
        while time.monotonic() < until:
            scene.progress(timeout_s=30)

    def heal(self, scene: Scene) -> None:
        for node, counts in self.network.order().items():
            scene.note(f"node {node}: {counts}")
            for kind in ("duplicated", "swapped", "delayed"):
                assert counts.get(kind, 0) > 0, f"no frame of node {node} was {kind}"
            assert "not held" not in counts, "as far as frames are held"
