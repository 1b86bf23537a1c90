"""Power cuts: unsynced data is lost, and the node starts on another kernel.

The image of a node's file system is copied at the moment of the cut, and the node starts again on
the copy.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Producer

from tests.robustness.faults.checker import COMMIT_LOST
from tests.robustness.faults.fault import Fault, Scene
from tests.support import mounted_disk, other_kernel
from tests.support.kafka_admin import make_replicated_topic
from tests.support.mounted_disk import LoopDisk
from tests.support.other_kernel import OtherKernel
from tests.support.partition_logs import end_offset
from tests.support.replicated.hosts import NodeHosts

NODES = (1, 2, 3)


Ends = dict[int, dict[int, int]]
"""By node and partition, the offset after the last whole batch in the log's files."""

_UNSYNCED = 100
_ACKNOWLEDGED_S_MAX = 20.0
_ALONE_S = 8.0
"""How long it is checked that the only running node does not lead."""


class PowerFault(Fault):
    """Every node has a disk and a kernel of its own."""

    def __init__(self) -> None:
        self._kernel = OtherKernel()
        self._disks: dict[int, LoopDisk] = {}

    def probe(self) -> str | None:
        return mounted_disk.missing("mkfs.ext4", "losetup") or other_kernel.missing()

    def prepare(self, directory: Path) -> Mapping[int, Path]:
        self._kernel.place(directory / "kernels")
        for node in NODES:
            disk = LoopDisk(directory / f"disk-{node}", image=directory / f"disk-{node}.image")
            self._disks[node] = disk
            disk.mount()
        return {node: disk.path for node, disk in self._disks.items()}

    def hosts(self) -> NodeHosts:
        return self._kernel

    def cut(
        self, scene: Scene, nodes: tuple[int, ...], topic: str | None = None
    ) -> tuple[Ends, Ends]:
        """Cuts the power of these nodes at once; returns their logs' ends before and after.

        The ends are those of the load's topic, or of another one with as many partitions.
        """
        scene.cluster.kill_nodes(nodes)
        had = _ends(scene, nodes, topic)
        for node in nodes:
            self._disks[node].lose_unsynced()
            self._kernel.reboot(node)
        has = _ends(scene, nodes, topic)
        scene.note(f"log ends before the cut {had}, after it {has}")
        return had, has

    def clean_up(self) -> None:
        for disk in self._disks.values():
            disk.unmount()


class PowerCutOfOne(PowerFault):
    """One node loses its logs' tails: it must not lead until it has fetched them again."""

    id = "F7"
    title = "power cut of one node: its tail is lost"

    def inject(self, scene: Scene) -> None:
        scene.victim = scene.leader()
        had, has = self.cut(scene, (scene.victim,))
        _assert_lost(scene.victim, had, has)
        scene.wait_led_by_others(scene.victim)
        scene.progress()

    def heal(self, scene: Scene) -> None:
        scene.cluster.restart_node(scene.victim)


class PowerCutOfLast(PowerFault):
    """The followers are killed with whole logs; the last leader loses its tail, and is back first.

    The ISR has only that node. The follower that ended last has all acknowledged records, too, as the
    ISR then fell below min.insync.replicas (KIP-966): it must lead. Groups' commits need one replica
    only, so some may be lost.
    """

    id = "F7-last"
    title = "power cut of the last leader, which comes back before the others"
    pause_s_max = None
    allowed = frozenset({COMMIT_LOST})

    def inject(self, scene: Scene) -> None:
        cluster = scene.cluster
        scene.victim = scene.leader()
        self._first, second = scene.others(scene.victim)
        for node in (self._first, second):
            cluster.kill_node(node)
            scene.wait_out_of_isr(node)
        epochs = {p.partition: p.leader_epoch for p in scene.view().values()}
        had, has = self.cut(scene, (scene.victim,))
        _assert_lost(scene.victim, had, has)
        for partition, numbers in scene.workload.history.acknowledged.items():
            last = max(list(numbers.values()))
            assert last >= has[scene.victim][partition], "it has all that was acknowledged"
        scene.wait(lambda parts: all(p.leader < 0 for p in parts.values()), 30, "no leader")
        cluster.restart_node(scene.victim)
        until = time.monotonic() + _ALONE_S
        while time.monotonic() < until:
            assert all(p.leader < 0 for p in scene.view().values()), "its log is too short to lead"
            time.sleep(0.2)
        cluster.restart_node(second)
        now = scene.wait(
            lambda parts: all(p.leader == second for p in parts.values()),
            30,
            f"node {second} leads",
        )
        assert all(now[p].leader_epoch > epoch for p, epoch in epochs.items())
        scene.note(f"node {scene.victim} was back and did not lead; node {second} leads")

    def heal(self, scene: Scene) -> None:
        scene.cluster.restart_node(self._first)


class PowerCutOfAll(PowerFault):
    """With a sync before each acknowledgement no record is lost, even when all nodes lose power.

    The last commits of groups may be lost: as in Kafka, the internal topic does not sync. Nor does a
    second topic here, which must lose acknowledged records on every replica: that shows that the cut
    really loses unsynced data.
    """

    id = "F8"
    title = "power cut of all nodes, flush.messages=1"
    pause_s_max = None
    allowed = frozenset({COMMIT_LOST})
    topic_configs: Mapping[str, str] = {"flush.messages": "1"}

    def inject(self, scene: Scene) -> None:
        count = scene.workload.history.partitions
        unsynced = make_replicated_topic(scene.cluster.bootstrap, "unsynced", partitions=count)
        producer = Producer({"bootstrap.servers": scene.cluster.bootstrap, "acks": "all"})
        for partition in range(count):
            for _ in range(_UNSYNCED):
                producer.produce(unsynced, b"acknowledged", partition=partition)
        assert producer.flush(_ACKNOWLEDGED_S_MAX) == 0
        had, has = self.cut(scene, NODES, unsynced)
        for node in NODES:
            assert all(end == _UNSYNCED for end in had[node].values()), "acks=all"
            _assert_lost(node, had, has)

    def heal(self, scene: Scene) -> None:
        for node in NODES:
            scene.cluster.start_node(node)
        for node in NODES:
            scene.cluster.wait_node(node)


def _ends(scene: Scene, nodes: tuple[int, ...], topic: str | None) -> Ends:
    partitions = range(scene.workload.history.partitions)
    return {
        node: {p: end_offset(scene.log_directory(node, p, topic)) for p in partitions}
        for node in nodes
    }


def _assert_lost(node: int, had: Ends, has: Ends) -> None:
    """Asserts that the cut has lost records."""
    whole = [p for p, end in has[node].items() if end >= had[node][p]]
    assert not whole, f"the tails of partitions {whole} were synced before the cut"
