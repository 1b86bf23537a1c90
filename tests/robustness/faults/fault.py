"""The base of all faults of the catalogue, and the scene in which they happen."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from tests.robustness.faults.workload import Workload
from tests.support.cluster_view import Partitions, PartitionView, is_whole, view, wait_for_view
from tests.support.replicated.hosts import NodeHosts
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import ReplicatedCluster

SESSION_S = 6.0
"""session_timeout_ms of the controller's defaults."""
FAILOVER_S_MAX = 4.0
"""The longest pause that is promised after a death that is noticed at once."""
ISR_S = 45.0
"""The longest time until a replica joins or leaves the ISR."""


class Scene:
    """A topic with three replicas, in a cluster under load, for a fault."""

    def __init__(
        self,
        cluster: ReplicatedCluster,
        topic: str,
        workload: Workload,
        chance: random.Random,
        *,
        partition: int = 0,
        progress: Callable[[int, float], None] | None = None,
    ) -> None:
        """A fault aims at `partition` of the topic, unless it names another one. `progress` waits for
        so many successes of clients, within a time, if those of the workload are not enough."""
        self.cluster = cluster
        self._aim = partition
        self._progress = progress or _of_workload(workload)
        self.topic = topic
        self.workload = workload
        self.chance = chance
        self.notes: list[str] = []
        """What the fault did and saw, for the report."""
        self.victim = -1
        """The node that a fault chose."""
        self.begun_s = 0.0
        """Pauses are measured from here on (monotonic clock). A fault whose preparation causes a
        pause of its own moves it."""

    def note(self, text: str) -> None:
        self.notes.append(text)

    @property
    def _bootstrap(self) -> str:
        return self.cluster.bootstrap_beside(self.victim)

    def view(self) -> Partitions:
        return view(self._bootstrap, self.topic)

    def partition(self, number: int | None = None) -> PartitionView:
        return self.view()[self._aim if number is None else number]

    def leader(self, number: int | None = None) -> int:
        """The node that leads a partition; waits until there is one."""
        if number is None:
            number = self._aim
        found = self.wait(lambda parts: parts[number].leader >= 0, 30, "a leader")
        return found[number].leader

    def follower(self, number: int | None = None) -> int:
        """A node that follows in a partition and is in its ISR."""
        part = self.partition(number)
        return self.chance.choice(sorted(part.isr - {part.leader}))

    def others(self, node: int) -> list[int]:
        return [other for other in self.cluster.node_ids if other != node]

    def wait(
        self, condition: Callable[[Partitions], bool], timeout_s: float, what: str
    ) -> Partitions:
        return wait_for_view(self._bootstrap, self.topic, condition, timeout_s=timeout_s, what=what)

    def wait_led_by_others(self, node: int, timeout_s: float = 30) -> float:
        """Waits until all partitions have leaders other than this node; returns the seconds."""
        started = time.monotonic()
        self.wait(
            lambda parts: all(p.leader >= 0 and p.leader != node for p in parts.values()),
            timeout_s,
            f"leaders other than node {node}",
        )
        return time.monotonic() - started

    def wait_out_of_isr(self, node: int, timeout_s: float = ISR_S) -> None:
        self.wait(
            lambda parts: all(node not in p.isr for p in parts.values()),
            timeout_s,
            f"node {node} out of the ISR",
        )

    def wait_whole(self, timeout_s: float = ISR_S) -> None:
        """Waits until every partition of the topic has a leader and its full ISR."""
        self.wait(is_whole, timeout_s, "leaders and full ISRs")

    def progress(self, count: int = 20, timeout_s: float = 60) -> None:
        """Waits for so many more acknowledgements in each partition."""
        self._progress(count, timeout_s)

    def log_directory(self, node: int, partition: int = 0, topic: str | None = None) -> Path:
        """The partitions of the load's topic, or of another one."""
        return self.cluster.data_dir(node) / f"{topic or self.topic}-{partition}"


def _of_workload(workload: Workload) -> Callable[[int, float], None]:
    return lambda count, timeout_s: workload.wait_for_progress(count, timeout_s=timeout_s)


class Fault:
    """One fault. Lifecycle: `probe`, `prepare`, the cluster starts, `started`, `inject`, `heal`,
    `check`, `clean_up`.

    A fault leaves every node running when `heal` returns; whether the cluster then becomes whole,
    and the histories, are judged for all faults alike.
    """

    id: ClassVar[str]
    """The id in the catalogue, with a variant where there are several."""
    title: ClassVar[str]

    pause_s_max: float | None = FAILOVER_S_MAX
    """The longest allowed pause between acknowledgements of a partition; None for any."""
    allowed: frozenset[str] = frozenset()
    """Kinds of violations that this fault may bring (an unclean election loses records)."""
    failures_allowed = False
    """Whether records may fail at the producer."""
    producer_survives = True
    """False if the producer's state is lost with its records, so that the producer must give up."""
    complaints: tuple[str, ...] = ()
    """Words of log lines of level error that belong to the fault."""
    topic_configs: Mapping[str, str] = {}
    client_settings: Mapping[str, Any] = {}
    """Of all clients, where they differ from what the library does by itself."""
    shape: Shape | None = None
    form = "split"
    """Which processes the cluster has, see `tests.cluster.replicated.in_form`."""

    def probe(self) -> str | None:
        """Why the fault is impossible on this machine, or None."""
        return None

    def prepare(self, directory: Path) -> Mapping[int, Path]:
        """Before the cluster starts: directories of nodes that need a file system of their own."""
        return {}

    def hosts(self) -> NodeHosts | None:
        """Where nodes run; None for loopback."""
        return None

    def environments(self, directory: Path) -> Mapping[str, Mapping[str, str]]:
        """Environment variables by process name."""
        return {}

    def started(self, cluster: ReplicatedCluster) -> None:
        """After the cluster has started, before its clients do."""

    def inject(self, scene: Scene) -> None:
        """Causes the fault and waits for its expected effects."""
        raise NotImplementedError

    def heal(self, scene: Scene) -> None:
        """Repairs it; returns when every process runs as before."""
        raise NotImplementedError

    def check(self, scene: Scene) -> None:
        """Checks what is particular to this fault, after the load has ended."""

    def clean_up(self) -> None:
        """Removes what `prepare` created; also called after a failure."""
