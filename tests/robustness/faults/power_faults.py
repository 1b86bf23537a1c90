"""Power cuts: what was not synced is gone, and the kernel that comes up is another one.

The image of a node's file system is copied as the disk has it at the moment of the cut, and the
copy is what the node finds when it starts again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.robustness.faults.checker import COMMIT_LOST
from tests.robustness.faults.fault import Fault, Scene
from tests.support import mounted_disk, other_kernel
from tests.support.mounted_disk import LoopDisk
from tests.support.other_kernel import OtherKernel
from tests.support.partition_logs import end_offset
from tests.support.replicated_cluster import NodeHosts

NODES = (1, 2, 3)


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

    def cut(self, scene: Scene, nodes: tuple[int, ...]) -> None:
        """The power of these nodes goes, at once."""
        scene.cluster.kill_nodes(nodes)
        had = {node: end_offset(scene.log_directory(node)) for node in nodes}
        for node in nodes:
            self._disks[node].lose_unsynced()
            self._kernel.reboot(node)
        has = {node: end_offset(scene.log_directory(node)) for node in nodes}
        scene.note(f"log end of partition 0 before the cut {had}, after it {has}")

    def clean_up(self) -> None:
        for disk in self._disks.values():
            disk.unmount()


class PowerCutOfOne(PowerFault):
    """One node loses its tail. It may not be trusted until it has fetched it again."""

    id = "F7"
    title = "power cut of one node: its tail is lost"

    def inject(self, scene: Scene) -> None:
        scene.victim = scene.leader()
        self.cut(scene, (scene.victim,))
        scene.wait_led_by_others(scene.victim)
        scene.progress()

    def heal(self, scene: Scene) -> None:
        scene.cluster.restart_node(scene.victim)


class PowerCutOfAll(PowerFault):
    """With a sync before each acknowledgement nothing is lost, not even when all nodes go.

    What groups committed last is: the internal topic has no such setting, as in Kafka.
    """

    id = "F8"
    title = "power cut of all nodes, flush.messages=1"
    pause_s_max = None
    allowed = frozenset({COMMIT_LOST})
    topic_configs: Mapping[str, str] = {"flush.messages": "1"}

    def inject(self, scene: Scene) -> None:
        self.cut(scene, NODES)

    def heal(self, scene: Scene) -> None:
        for node in NODES:
            scene.cluster.start_node(node)
        for node in NODES:
            scene.cluster.wait_node(node)
