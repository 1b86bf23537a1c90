"""What goes wrong in a cluster beside the faults of its partitions."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.sim.options import NEVER_MS

if TYPE_CHECKING:
    from tests.sim.node import NodeProcess
    from tests.sim.txn.cluster import Cluster

HOST_DIES_MS = 900
AWAY_MS = (30, 150, 600)
SILENT_EVERY_MS = 2_000
SNAPSHOTS_MS = 500
"""After which nodes have probably written what is left of their producers."""
RESTARTS_APART_MS = 150
READS_MS = 800
LATE_SHARE = 0.04
LATE_MS = (100, 400, 1_200)


class ClusterFaults:
    """Processes die only in seeds that may kill them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rng = random.Random(cluster.options.seed * 32_452_843 + 31)
        self.active = True
        self._kills = "kill" in cluster.options.faults

    def begin(self) -> None:
        """The first host dies after a while."""
        if self._kills:
            self._later()
            if self._cluster.options.producer_expiration_ms < NEVER_MS:
                self._cluster.home.after(SILENT_EVERY_MS, self._clients_fall_silent)

    def _clients_fall_silent(self) -> None:
        """For so long that their producers expire; then all hosts are restarted, one after another."""
        if not self.active:
            return
        cluster, home = self._cluster, self._cluster.home
        pause_ms = cluster.options.producer_expiration_ms + SNAPSHOTS_MS
        for node in home.nodes:
            home.after(pause_ms, self._host_restarts, node)
            pause_ms += RESTARTS_APART_MS
        cluster.silent_until_ms = home.now + pause_ms + READS_MS
        home.after(pause_ms + READS_MS + SILENT_EVERY_MS, self._clients_fall_silent)

    def _host_restarts(self, node: int) -> None:
        if not self.active:
            return
        for world in self._cluster.worlds.values():
            if world.processes.get(node) is not None:
                world.restart(node)

    def _later(self) -> None:
        pause_ms = 1 + int(self._rng.expovariate(1 / HOST_DIES_MS))
        self._cluster.home.after(pause_ms, self._host_dies)

    def _host_dies(self) -> None:
        """All processes of a node at once, and later all come back."""
        if not self.active:
            return
        node = self._rng.choice(self._cluster.home.nodes)
        restart_ms = self._rng.choice(AWAY_MS)
        for world in self._cluster.worlds.values():
            if world.processes.get(node) is not None:
                world.kill(node, restart_ms=restart_ms)
        self._later()

    def late_marker(self, process: NodeProcess) -> int:
        """In a few cases the coordinator dies after it has sent a marker, which comes so late that
        another one may have completed the transaction; 0 in all others.
        """
        if not self.active or not self._kills or self._rng.random() >= LATE_SHARE:
            return 0
        restart_ms = self._rng.choice(AWAY_MS)
        process.world.after(
            self._rng.randint(0, 5), process.world.kill_process, process, restart_ms
        )
        return self._rng.choice(LATE_MS)

    def late_copy(self) -> int:
        """In a few cases a marker comes once more, so much later; 0 in all others."""
        if not self.active or self._rng.random() >= LATE_SHARE:
            return 0
        return self._rng.choice(LATE_MS)
