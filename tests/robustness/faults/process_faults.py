"""Faults of processes: ends, pauses and restarts of nodes and of controllers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.robustness.faults.fault import SESSION_S, Fault, Scene
from tests.support.process import ManagedProcess, free_port_block, wait_until

TERM_PAUSE_S_MAX = 0.3
"""A node that gets SIGTERM hands its leaderships over first."""
CONTROLLER_AND_LEADER_S_MAX = 6.0
"""A standby becomes active, and then notices which nodes have ended together with its predecessor."""
GIVE_UP_S = 1.0
"""The longest time from the end of a silent node's session to the next acknowledgement."""
SILENT_PAUSE_S_MAX = SESSION_S + GIVE_UP_S
"""A silent node is fenced after its session."""


class KillLeader(Fault):
    """SIGKILL to a leader; another replica leads within seconds."""

    id = "F1"
    title = "kill -9 of a leader"

    def inject(self, scene: Scene) -> None:
        scene.victim = scene.leader()
        scene.cluster.kill_node(scene.victim)
        took_s = scene.wait_led_by_others(scene.victim)
        scene.note(f"node {scene.victim} killed, others lead after {took_s:.2f} s")
        scene.progress()

    def heal(self, scene: Scene) -> None:
        scene.cluster.restart_node(scene.victim)


@dataclass
class ChaseLeader(Fault):
    """Each new leader is killed, as soon as the cluster can do without it."""

    rounds: int = 5

    id = "F2"
    title = "kill -9 of every next leader"

    def inject(self, scene: Scene) -> None:
        for _ in range(self.rounds):
            victim = scene.leader()
            scene.cluster.kill_node(victim)
            took_s = scene.wait_led_by_others(victim)
            scene.note(f"node {victim}: {took_s:.2f} s")
            scene.cluster.start_node(victim)
            scene.progress(count=5)
            # With two of three in sync, the next kill would leave one, and no write succeed.
            scene.cluster.wait_node(victim)
            scene.wait_whole()

    def heal(self, scene: Scene) -> None:
        """Does nothing: every node has been started again."""


class TerminateLeader(Fault):
    """SIGTERM: leaderships move before the node ends, and its clients hardly notice."""

    id = "F3"
    title = "SIGTERM of a leader"
    pause_s_max = TERM_PAUSE_S_MAX

    def inject(self, scene: Scene) -> None:
        scene.victim = scene.leader()
        begun = time.monotonic()
        code = scene.cluster.terminate_node(scene.victim)
        scene.note(f"node {scene.victim} ended with {code} after {time.monotonic() - begun:.2f} s")
        assert code == 0
        scene.wait_led_by_others(scene.victim)
        scene.progress()

    def heal(self, scene: Scene) -> None:
        scene.cluster.restart_node(scene.victim)


@dataclass
class PauseLeader(Fault):
    """A leader is paused for longer than its session, and resumes without knowing of the election."""

    session_s: float = SESSION_S

    id = "F4"
    title = "SIGSTOP of a leader for two sessions, then SIGCONT"

    def __post_init__(self) -> None:
        self.pause_s_max = self.session_s + GIVE_UP_S

    def inject(self, scene: Scene) -> None:
        scene.victim = scene.leader()
        before = {p.partition: p.leader_epoch for p in scene.view().values()}
        begun = time.monotonic()
        scene.cluster.pause(f"node-{scene.victim}")
        took_s = scene.wait_led_by_others(scene.victim)
        scene.note(f"node {scene.victim} paused, others lead after {took_s:.2f} s")
        scene.progress()
        time.sleep(max(0.0, begun + 2 * self.session_s - time.monotonic()))
        assert any(p.leader_epoch > before[p.partition] for p in scene.view().values())

    def heal(self, scene: Scene) -> None:
        scene.cluster.resume(f"node-{scene.victim}")


@dataclass
class PauseFollower(Fault):
    """A follower is paused: it leaves the ISR, writes go on, and it comes back."""

    id = "F5"
    title = "SIGSTOP of a follower: the ISR shrinks, and grows again"
    pause_s_max = SILENT_PAUSE_S_MAX

    def inject(self, scene: Scene) -> None:
        scene.victim = scene.follower()
        begun = time.monotonic()
        scene.cluster.pause(f"node-{scene.victim}")
        scene.wait_out_of_isr(scene.victim)
        scene.note(f"node {scene.victim} out of the ISR after {time.monotonic() - begun:.2f} s")
        scene.progress()

    def heal(self, scene: Scene) -> None:
        begun = time.monotonic()
        scene.cluster.resume(f"node-{scene.victim}")
        scene.wait_whole()
        scene.note(f"back after {time.monotonic() - begun:.2f} s")


class KillAll(Fault):
    """All nodes are killed at once. Records are in the page cache, which outlives processes: none is
    lost.

    A power cut of all machines is another fault, which needs flush.messages.
    """

    id = "F6-nodes"
    title = "kill -9 of all nodes at once"
    pause_s_max = None

    def inject(self, scene: Scene) -> None:
        scene.cluster.kill_nodes(scene.cluster.node_ids)
        time.sleep(1)

    def heal(self, scene: Scene) -> None:
        begun = time.monotonic()
        for node in scene.cluster.node_ids:
            scene.cluster.start_node(node)
        for node in scene.cluster.node_ids:
            scene.cluster.wait_node(node)
        scene.note(f"all serve after {time.monotonic() - begun:.1f} s")


class KillEverything(Fault):
    """Every process of the cluster at once: nodes, controllers, gateways, and all members of etcd.

    No metadata may be lost, either.
    """

    id = "F6"
    title = "kill -9 of the whole cluster at once"
    pause_s_max = None

    def inject(self, scene: Scene) -> None:
        before = scene.view()
        self._epochs = {p.partition: p.leader_epoch for p in before.values()}
        scene.cluster.kill_everything()
        running = [n for n in scene.cluster.names if scene.cluster.process(n).running]
        running += [m.name for m in scene.cluster.etcd.members if m.running]
        assert not running, running
        time.sleep(1)

    def heal(self, scene: Scene) -> None:
        begun = time.monotonic()
        scene.cluster.start_everything()
        scene.note(f"all serve after {time.monotonic() - begun:.1f} s")
        now = scene.wait(lambda parts: all(p.leader >= 0 for p in parts.values()), 30, "leaders")
        assert all(now[p].leader_epoch >= epoch for p, epoch in self._epochs.items()), now


class KillController(Fault):
    """Only the active controller is killed: produce and consume go on."""

    id = "F13-controller"
    title = "kill -9 of the active controller"
    pause_s_max = 1.0

    def inject(self, scene: Scene) -> None:
        cluster = scene.cluster
        active = cluster.active_controller()
        begun = time.monotonic()
        cluster.process(active).kill()
        wait_until(
            lambda: _active(scene) not in ("", active), timeout_s=30, what="another controller"
        )
        scene.note(f"{active} killed, another one active after {time.monotonic() - begun:.1f} s")
        scene.progress()
        cluster.process(active).start()

    def heal(self, scene: Scene) -> None:
        """Does nothing: the killed controller has been restarted as a standby."""


class KillControllerAndLeader(Fault):
    """A leader dies while there is no active controller: the next one notices it and elects."""

    id = "F1-controller"
    title = "kill -9 of the active controller and of a leader together"
    # Ended processes are noticed at once, without waiting for leases and sessions.
    pause_s_max = CONTROLLER_AND_LEADER_S_MAX

    def inject(self, scene: Scene) -> None:
        cluster = scene.cluster
        scene.victim = scene.leader()
        active = cluster.active_controller()
        cluster.process(active).kill()
        cluster.kill_node(scene.victim)
        took_s = scene.wait_led_by_others(scene.victim, timeout_s=40)
        scene.note(f"{active} and node {scene.victim} killed, others lead after {took_s:.1f} s")
        scene.progress()
        cluster.process(active).start()

    def heal(self, scene: Scene) -> None:
        scene.cluster.restart_node(scene.victim)


@dataclass
class DuplicateNode(Fault):
    """A second process with the id of a live node, on another directory, is refused."""

    id = "F27"
    title = "a second node with the same id"
    pause_s_max = 1.0

    def inject(self, scene: Scene) -> None:
        cluster = scene.cluster
        scene.victim = scene.leader()
        epoch = cluster.store.node_epoch(scene.victim)
        elsewhere = cluster.data_dir(scene.victim).with_name("duplicate")
        twin = ManagedProcess(
            "twin",
            cluster.commands.node(scene.victim, elsewhere, port=free_port_block(1)),
            log_path=elsewhere.with_suffix(".log"),
        )
        twin.start()
        try:
            wait_until(lambda: not twin.running, timeout_s=50, what="the end of the second node")
            code = twin.stop()
        finally:
            twin.kill()
        scene.note(f"the second node {scene.victim} ended with {code}")
        assert code == 2, twin.log_tail()
        assert "in use by a live node" in twin.log_tail()
        assert cluster.store.node_epoch(scene.victim) == epoch, "the first is the one that counts"

    def heal(self, scene: Scene) -> None:
        """The first node never knew."""


_MEMORY_BYTES = 64 << 20
_HOG = """
import os, pathlib, sys, time
(pathlib.Path(sys.argv[1]) / "cgroup.procs").write_text(str(os.getpid()))
taken = []
for _ in range(400):
    taken.append(b"x" * (1 << 20))
    time.sleep(0.01)
"""


class OutOfMemory(Fault):
    """The kernel kills a leader that has reached its memory limit (cgroup v1)."""

    id = "F37"
    title = "a leader is killed for want of memory"

    _ROOT = Path("/sys/fs/cgroup/memory")

    def __init__(self) -> None:
        self._group = self._ROOT / f"highwater-test-{os.getpid()}"

    def probe(self) -> str | None:
        if os.geteuid() != 0:
            return "cgroups need root"
        if not (self._ROOT / "memory.limit_in_bytes").exists():
            return "no memory cgroup of version 1"
        return None

    def inject(self, scene: Scene) -> None:
        scene.victim = scene.leader()
        cluster = scene.cluster
        process = cluster.process(f"node-{scene.victim}")
        cluster.expect_end(scene.victim)
        self._group.mkdir(exist_ok=True)
        (self._group / "cgroup.procs").write_text(str(process.pid))
        (self._group / "memory.limit_in_bytes").write_text(str(_MEMORY_BYTES))
        Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
        # The node's memory is charged to its former group, so another process uses up this group's
        # limit; the kernel prefers to kill the node.
        hog = subprocess.Popen([sys.executable, "-c", _HOG, str(self._group)])
        try:
            wait_until(lambda: not process.running, timeout_s=30, what="the kernel's kill")
        finally:
            hog.kill()
            hog.wait(10)
        took_s = scene.wait_led_by_others(scene.victim)
        scene.note(f"node {scene.victim} killed by the kernel, others lead {took_s:.2f} s later")
        scene.progress()

    def heal(self, scene: Scene) -> None:
        scene.cluster.process(f"node-{scene.victim}").kill()
        scene.cluster.restart_node(scene.victim)

    def clean_up(self) -> None:
        if self._group.exists():
            self._group.rmdir()


def _active(scene: Scene) -> str:
    try:
        return scene.cluster.active_controller()
    except RuntimeError:
        return ""
