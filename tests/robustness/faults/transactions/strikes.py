"""What happens to whom: the catalogue's faults aimed at those whom a transaction needs.

A strike takes a fault of the catalogue and a partition whose leader it is about: that of accounts, of
`__transaction_state`, or of `__consumer_offsets`. The controllers have faults of their own here.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum

from tests.robustness.faults.fault import Fault, Scene
from tests.robustness.faults.network_faults import (
    LAG_S,
    CutOffLeader,
    LeaderWithoutController,
    MuteLeader,
    NetworkFault,
)
from tests.robustness.faults.process_faults import (
    ChaseLeader,
    KillAll,
    KillController,
    KillControllerAndLeader,
    KillEverything,
    KillLeader,
    PauseLeader,
    TerminateLeader,
)
from tests.support.node_network import NodeNetwork
from tests.support.process import wait_until

SESSION_S = 2.4
"""Of nodes, in these tests."""
LEASE_S_MAX = 40.0
"""The longest time until another controller is active."""
_STOP_S_MAX = 25.0


class Aim(Enum):
    """Whom a strike is about."""

    LEADER = "the leader of accounts"
    TRANSACTIONS = "the transaction coordinator"
    GROUP = "the group coordinator"
    CONTROLLER = "the active controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """A fault, and at whom it is aimed."""

    fault: Fault
    aim: Aim

    @property
    def needs_standby(self) -> bool:
        """Whether another controller must take over."""
        return self.aim is Aim.CONTROLLER or isinstance(self.fault, KillControllerAndLeader)

    def __str__(self) -> str:
        return f"{self.fault.title}: {self.aim.value}"


class PauseController(Fault):
    """The active controller is paused until another one is active, and resumes as one of the past."""

    id = "F13-controller-pause"
    title = "SIGSTOP of the active controller until another one is active, then SIGCONT"

    def inject(self, scene: Scene) -> None:
        self._paused = scene.cluster.active_controller()
        scene.cluster.pause(self._paused)
        _wait_for_another(scene, self._paused)
        scene.progress()

    def heal(self, scene: Scene) -> None:
        scene.cluster.resume(self._paused)


class TerminateController(Fault):
    """SIGTERM: the active controller gives up its role before it ends."""

    id = "F13-controller-term"
    title = "SIGTERM of the active controller"

    def inject(self, scene: Scene) -> None:
        self._ended = scene.cluster.active_controller()
        code = scene.cluster.process(self._ended).stop(timeout_s=_STOP_S_MAX)
        assert code == 0, f"{self._ended} ended with {code}"
        _wait_for_another(scene, self._ended)
        scene.progress()

    def heal(self, scene: Scene) -> None:
        scene.cluster.process(self._ended).start()


class LeaderAlone(NetworkFault):
    """A leader reaches controller and gateways, but no other node: its ISR shrinks to itself, and with
    min.insync.replicas 2 it decides nothing until they are back. As a coordinator, it has transactions
    that are open, or decided and not told, meanwhile."""

    id = "F11"
    title = "a leader sees the controller and no follower"

    def inject(self, scene: Scene) -> None:
        # After an earlier strike, else the partitions that it leads may be given to another node meanwhile.
        scene.wait(
            lambda parts: all(p.leader == p.replicas[0] for p in parts.values()),
            LEASE_S_MAX,
            "preferred leaders",
        )
        scene.victim = scene.leader()
        led = [p.partition for p in scene.view().values() if p.leader == scene.victim]
        peers = self.nodes(scene, scene.victim)
        self.network.cut_incoming(scene.victim, peers)
        self.network.cut_outgoing(scene.victim, peers)
        begun_s = time.monotonic()
        alone = {scene.victim}
        # Not of all: followers that have the whole log of an idle partition stay in its ISR.
        scene.wait(
            lambda parts: any(parts[p].isr == alone for p in led), 3 * LAG_S, "an ISR of one"
        )
        scene.note(f"node {scene.victim} alone after {time.monotonic() - begun_s:.1f} s")


class CutOffController(NetworkFault):
    """The active controller hears no node, and stays active: it takes all of them for dead."""

    id = "F12-all"
    title = "no node reaches the active controller for two sessions"

    def inject(self, scene: Scene) -> None:
        cluster = scene.cluster
        active = cluster.active_controller()
        port = cluster.ports.controllers[int(active.rpartition("-")[2])]
        for node in cluster.node_ids:
            self.network.cut_port(node, port)
        time.sleep(2 * SESSION_S)
        fenced = [node for node in cluster.node_ids if cluster.store.is_fenced(node)]
        scene.note(f"{active} cut off, which fenced {fenced}")
        assert fenced == list(cluster.node_ids), "or this has shown nothing"

    def heal(self, scene: Scene) -> None:
        super().heal(scene)
        cluster = scene.cluster
        wait_until(
            lambda: not any(cluster.store.is_fenced(node) for node in cluster.node_ids),
            timeout_s=LEASE_S_MAX,
            what="all nodes unfenced",
        )
        scene.progress()


def _wait_for_another(scene: Scene, active: str) -> None:
    """Waits until another controller than that one is active."""
    begun_s = time.monotonic()

    def changed() -> bool:
        standing = scene.cluster.standing_controllers()
        return bool(standing) and standing[0] != active

    wait_until(changed, timeout_s=LEASE_S_MAX, what="another active controller")
    scene.note(f"another one than {active} after {time.monotonic() - begun_s:.1f} s")


_NODES = (Aim.LEADER, Aim.TRANSACTIONS, Aim.GROUP)


def killed() -> list[Strike]:
    """Leader and coordinators get SIGKILL."""
    return [Strike(fault=KillLeader(), aim=aim) for aim in _NODES]


def terminated() -> list[Strike]:
    """Leader and coordinators get SIGTERM."""
    return [Strike(fault=TerminateLeader(), aim=aim) for aim in _NODES]


def paused() -> list[Strike]:
    """Leader and coordinators sleep past their sessions, and come back as those of the past."""
    return [Strike(fault=PauseLeader(session_s=SESSION_S), aim=aim) for aim in _NODES]


def cut() -> list[Strike]:
    """Leader and coordinators are cut off from everybody, and the nodes from the active controller."""
    strikes = [Strike(fault=CutOffLeader(), aim=aim) for aim in _NODES]
    return [*strikes, Strike(fault=CutOffController(), aim=Aim.CONTROLLER)]


def controllers() -> list[Strike]:
    """The active controller gets SIGKILL and SIGTERM, and sleeps past its lease."""
    faults: list[Fault] = [KillController(), TerminateController(), PauseController()]
    return [Strike(fault=fault, aim=Aim.CONTROLLER) for fault in faults]


def half_cut() -> list[Strike]:
    """Connections of one direction, and of some peers only."""
    return [
        Strike(fault=MuteLeader(), aim=Aim.TRANSACTIONS),
        Strike(fault=LeaderAlone(), aim=Aim.TRANSACTIONS),
        Strike(fault=LeaderWithoutController(), aim=Aim.GROUP),
    ]


def together() -> list[Strike]:
    """Several at once, and one after the other."""
    return [
        Strike(fault=KillControllerAndLeader(), aim=Aim.TRANSACTIONS),
        Strike(fault=ChaseLeader(rounds=2), aim=Aim.TRANSACTIONS),
        Strike(fault=KillAll(), aim=Aim.TRANSACTIONS),
        Strike(fault=KillEverything(), aim=Aim.TRANSACTIONS),
    ]


def network_of(strikes: list[Strike]) -> NodeNetwork | None:
    """The network that all strikes of a run share, if one of them cuts it."""
    cutting = [one.fault for one in strikes if isinstance(one.fault, NetworkFault)]
    for fault in cutting[1:]:
        fault.network = cutting[0].network
    return cutting[0].network if cutting else None
