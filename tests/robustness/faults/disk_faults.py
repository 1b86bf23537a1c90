"""Faults of disks: full, slow, hanging, failing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from highwater.metadata.loop_watch import LOOP_SILENT_MS_MAX
from tests.robustness.faults.fault import FAILOVER_S_MAX, SESSION_S, Fault, Scene
from tests.support import call_tracer, mounted_disk
from tests.support.call_tracer import READS, SYNCS, CallTracer
from tests.support.mounted_disk import LoopDisk, SmallDisk
from tests.support.process import wait_until
from tests.support.replicated.shape import Shape

NODE = 2
"""Whose disk it is; faults wait until it leads a partition, which it does from the start."""

HUNG_S_MAX = LOOP_SILENT_MS_MAX / 1000 + SESSION_S + 1
"""A hanging node sends heartbeats until the limit, and is fenced after its session."""

_SMALL_BYTES = 96 << 20
_MARK_BYTES = 32 << 20
_SLOW_SYNCS_MIN = 20
"""A fifth of those that take 0.2 s each in the time, if they come one after the other."""
_OFFLINE = (
    "log_dir_failed",
    "log_dir_not_closed",
    "replica_failed",
    "log_dirs_failed",
    "every log directory",
)


class DiskFault(Fault):
    """Node 2 has a file system of its own."""

    complaints: tuple[str, ...] = _OFFLINE

    def mount_point(self, directory: Path) -> Path:
        return directory / "disk"

    def lead(self, scene: Scene) -> None:
        """Waits until the node leads something."""
        scene.victim = NODE
        scene.wait(
            lambda parts: any(p.leader == NODE for p in parts.values()), 30, f"node {NODE} leads"
        )

    def restart(self, scene: Scene) -> None:
        """A directory that went offline comes back with the next start only, as in Kafka."""
        scene.cluster.kill_node(NODE)
        scene.cluster.restart_node(NODE)


class FullDisk(DiskFault):
    """A leader's disk is full to the last byte: others lead, and the leader's files are not damaged."""

    id = "F20"
    title = "a leader's disk is full"
    pause_s_max: float | None = FAILOVER_S_MAX
    # Else the node would notice before the file system does.
    shape = Shape(settings={"partition": {"storage.disk_free_min": "0"}})

    def probe(self) -> str | None:
        return mounted_disk.missing()

    def prepare(self, directory: Path) -> Mapping[int, Path]:
        self._disk = SmallDisk(self.mount_point(directory), size_bytes=_SMALL_BYTES)
        self._disk.mount()
        return {NODE: self._disk.path}

    def inject(self, scene: Scene) -> None:
        self.lead(scene)
        self._disk.fill()
        took_s = scene.wait_led_by_others(NODE)
        scene.note(f"disk full, others lead after {took_s:.2f} s")
        scene.progress()

    def heal(self, scene: Scene) -> None:
        self._disk.free()
        self.restart(scene)

    def clean_up(self) -> None:
        self._disk.unmount()


class NearlyFullDisk(FullDisk):
    """A leader's disk is nearly full: it refuses clients, others lead, and the node goes on by itself."""

    id = "F20-nearly"
    title = "a leader's disk is nearly full"
    pause_s_max = None
    shape = Shape(settings={"partition": {"storage.disk_free_min": str(_MARK_BYTES)}})
    complaints = ("disk_nearly_full",)

    def inject(self, scene: Scene) -> None:
        self.lead(scene)
        # Enough for what replicas write until the node looks, and more than half of the mark.
        self._disk.fill(leave_bytes=_MARK_BYTES * 3 // 4)
        self._wait_told(scene, "disk_nearly_full")
        took_s = scene.wait_led_by_others(NODE)
        scene.note(f"disk nearly full, others lead after {took_s:.2f} s")
        scene.progress()

    def heal(self, scene: Scene) -> None:
        node = scene.cluster.process(f"node-{NODE}")
        self._disk.free()
        self._wait_told(scene, "disk_has_space_again")
        scene.progress()
        assert node.running
        assert not any(node.lines_with(word) for word in _OFFLINE)

    def _wait_told(self, scene: Scene, event: str) -> None:
        node = scene.cluster.process(f"node-{NODE}")
        wait_until(lambda: bool(node.lines_with(event)), timeout_s=10, what=event)


class FrozenDisk(DiskFault):
    """A leader's file system hangs for a while, and then goes on."""

    def probe(self) -> str | None:
        return mounted_disk.missing("mkfs.ext4", "losetup", "fsfreeze")

    def prepare(self, directory: Path) -> Mapping[int, Path]:
        self._disk = LoopDisk(self.mount_point(directory), image=directory / "disk.image")
        self._disk.mount()
        return {NODE: self._disk.path}

    def frozen(self, scene: Scene) -> None:
        """While it stands still."""
        raise NotImplementedError

    def inject(self, scene: Scene) -> None:
        self.lead(scene)
        self._disk.freeze()
        try:
            self.frozen(scene)
        finally:
            self._disk.thaw()
        scene.progress()

    def heal(self, scene: Scene) -> None:
        assert scene.cluster.process(f"node-{NODE}").running, "it hung, and had no reason to end"

    def clean_up(self) -> None:
        self._disk.unmount()


@dataclass
class StalledDisk(FrozenDisk):
    """A leader's writes hang, and with them its loop: it is fenced like a paused process."""

    seconds: float = 30.0

    id = "F18"
    title = "a leader's disk stands still"
    pause_s_max = HUNG_S_MAX

    def frozen(self, scene: Scene) -> None:
        until = time.monotonic() + self.seconds
        took_s = scene.wait_led_by_others(NODE)
        scene.note(f"frozen for {self.seconds:.0f} s, others lead after {took_s:.2f} s")
        scene.progress()
        time.sleep(max(0.0, until - time.monotonic()))


@dataclass
class BrieflyStalledDisk(FrozenDisk):
    """A disk that hangs for seconds causes no election."""

    seconds: float = 3.0

    id = "F18-briefly"
    title = "a leader's disk stands still for seconds"

    def __post_init__(self) -> None:
        self.pause_s_max = self.seconds + 1

    def frozen(self, scene: Scene) -> None:
        before = {p.partition: p.leader_epoch for p in scene.view().values()}
        time.sleep(self.seconds)
        after = {p.partition: p.leader_epoch for p in scene.view().values()}
        assert before == after, "slow, not dead"


class ReadOnlyDisk(DiskFault):
    """The kernel makes a leader's file system read-only after an error; the disk is replaced."""

    id = "F21"
    title = "a leader's disk becomes read-only"
    pause_s_max = FAILOVER_S_MAX

    def probe(self) -> str | None:
        return mounted_disk.missing("mkfs.ext4", "losetup")

    def prepare(self, directory: Path) -> Mapping[int, Path]:
        self._disk = LoopDisk(self.mount_point(directory), image=directory / "disk.image")
        self._disk.mount()
        return {NODE: self._disk.path}

    def inject(self, scene: Scene) -> None:
        self.lead(scene)
        self._disk.fail()
        took_s = scene.wait_led_by_others(NODE)
        scene.note(f"read-only, others lead after {took_s:.2f} s")
        scene.progress()

    def heal(self, scene: Scene) -> None:
        scene.cluster.kill_node(NODE)
        self._disk.replace()
        scene.cluster.restart_node(NODE)

    def clean_up(self) -> None:
        self._disk.unmount()


class TracedFault(Fault):
    """System calls of a node are changed by strace, which is attached for a while."""

    topic_configs: Mapping[str, str] = {"flush.messages": "1"}
    injection = ""
    calls = SYNCS

    def probe(self) -> str | None:
        return call_tracer.missing()

    def tracer(self, scene: Scene, paths: Iterable[Path] = ()) -> CallTracer:
        """For the victim."""
        name = f"node-{scene.victim}"
        return CallTracer(
            scene.cluster.process(name).pid,
            self.injection,
            output=scene.cluster.data_dir(scene.victim).with_name(f"{name}.trace"),
            calls=self.calls,
            paths=paths,
        )

    def wait_failed(self, scene: Scene) -> None:
        """Waits until the victim has logged that its directory failed."""
        process = scene.cluster.process(f"node-{scene.victim}")
        wait_until(
            lambda: bool(process.lines_with("log_dir_failed")), timeout_s=10, what="a failed dir"
        )


class FailingSync(TracedFault):
    """The kernel reports a failed sync once: a node that only retried would lose data."""

    id = "F19"
    title = "fsync fails once under a leader"
    pause_s_max = FAILOVER_S_MAX
    injection = "error=EIO:when=1"
    complaints = _OFFLINE

    def inject(self, scene: Scene) -> None:
        scene.victim = scene.leader()
        with self.tracer(scene) as tracer:
            took_s = scene.wait_led_by_others(scene.victim)
        assert tracer.changed(), "no sync failed"
        scene.note(f"one fsync failed, others lead after {took_s:.2f} s")
        self.wait_failed(scene)
        scene.progress()

    def heal(self, scene: Scene) -> None:
        scene.cluster.kill_node(scene.victim)
        scene.cluster.restart_node(scene.victim)


class UnreadableDisk(TracedFault):
    """A leader's segments cannot be read any more, as on a disk with bad sectors: others lead.

    The first read for a follower fails: the directory goes offline, and as it is the only one, the
    node ends. The records that only this node has were not acknowledged.
    """

    id = "F21-unreadable"
    title = "a leader cannot read its segments"
    pause_s_max = FAILOVER_S_MAX
    injection = "error=EIO"
    calls = READS
    complaints = _OFFLINE
    topic_configs: Mapping[str, str] = {}

    def inject(self, scene: Scene) -> None:
        scene.victim = scene.leader()
        segments = [
            path
            for partition in range(scene.workload.history.partitions)
            for path in scene.log_directory(scene.victim, partition).glob("*.log")
        ]
        with self.tracer(scene, segments) as tracer:
            scene.wait_led_by_others(scene.victim)
        failed = tracer.changed()
        assert failed, "nobody read"
        scene.note(f"node {scene.victim}: {len(failed)} reads failed, others lead")
        self.wait_failed(scene)
        scene.progress()

    def heal(self, scene: Scene) -> None:
        scene.cluster.kill_node(scene.victim)
        scene.cluster.restart_node(scene.victim)


@dataclass
class SlowSync(TracedFault):
    """Every sync of a node takes 200 ms longer: it keeps its leaderships.

    As a follower it may leave the ISR; as a leader it makes clients wait.
    """

    seconds: float = 20.0
    who: Literal["leader", "follower"] = "follower"

    id = "F17"
    title = "a node's disk is slow"
    pause_s_max = SESSION_S
    injection = "delay_exit=200000"

    def inject(self, scene: Scene) -> None:
        scene.victim = scene.leader() if self.who == "leader" else scene.follower()
        before = _leaders(scene)
        with self.tracer(scene) as tracer:
            until = time.monotonic() + self.seconds
            while time.monotonic() < until:
                scene.progress(count=5)
                assert _leaders(scene) == before, "leaders flap"
        delayed = len(tracer.changed())
        scene.note(f"{delayed} syncs of the {self.who} {scene.victim} were slow")
        assert delayed >= _SLOW_SYNCS_MIN, "the disk was not slow"

    def heal(self, scene: Scene) -> None:
        """The tracer is gone."""


@dataclass
class LaggingFollower(TracedFault):
    """A follower's syncs take 1.5 s, longer than it may lag: it only leaves the ISR.

    It is alive all the time: registered, not fenced, and fetching. Before that it hands its
    leaderships over, so that only its followed partitions are slow.
    """

    seconds: float = 15.0

    id = "F17-lag"
    title = "a follower's disk is so slow that it lags"
    pause_s_max = SESSION_S
    injection = "delay_exit=1500000"
    shape = Shape(
        settings={
            "partition": {"replica_lag_time_max_ms": "1000"},
            "controller": {"leader_imbalance_check_interval_ms": "0"},
        }
    )

    def inject(self, scene: Scene) -> None:
        cluster = scene.cluster
        scene.victim = scene.follower()
        cluster.terminate_node(scene.victim)
        cluster.restart_node(scene.victim)
        scene.wait_whole()
        before, node_epoch = _leaders(scene), cluster.store.node_epoch(scene.victim)
        assert all(leader != scene.victim for leader, _ in before.values())
        scene.begun_s = begun_s = time.monotonic()
        with self.tracer(scene) as tracer:
            scene.wait_out_of_isr(scene.victim)
            scene.note(f"node {scene.victim} out of the ISR {time.monotonic() - begun_s:.1f} s on")
            looks = away = 0
            until_s = time.monotonic() + self.seconds
            while time.monotonic() < until_s:
                scene.progress(count=20, timeout_s=20)
                looks += 1
                away += all(scene.victim not in p.isr for p in scene.view().values())
                assert _leaders(scene) == before, "leaders flap"
                assert not cluster.store.is_fenced(scene.victim), "it is slow, not dead"
            assert cluster.store.node_epoch(scene.victim) == node_epoch, "it was never given up"
        delayed = len(tracer.changed())
        scene.note(f"{delayed} syncs were slow, out of the ISR at {away} of {looks} looks")
        # When the load pauses for a moment, the follower catches up and is in the ISR for a moment.
        assert away > looks / 2, "it lagged, and was in the ISR"

    def heal(self, scene: Scene) -> None:
        """The tracer is gone, and the node comes back by itself."""
        assert scene.cluster.process(f"node-{scene.victim}").running


def _leaders(scene: Scene) -> dict[int, tuple[int, int]]:
    """By partition, leader and epoch."""
    return {p.partition: (p.leader, p.leader_epoch) for p in scene.view().values()}
