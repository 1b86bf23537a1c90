"""The faults of crash tests, as named objects: how the cluster is broken, and repaired."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from tests.support.cluster import Cluster


class Fault(Protocol):
    """One fault of one cluster."""

    def inject(self) -> None:
        """Causes the fault; returns when it is done."""

    def heal(self) -> float:
        """Repairs it; returns the seconds until the cluster served again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillNode:
    """`kill -9` of a partition node (of the whole broker in embedded mode), then a restart."""

    cluster: Cluster
    node_id: int

    def inject(self) -> None:
        self.cluster.kill_node(self.node_id)

    def heal(self) -> float:
        started = time.monotonic()
        self.cluster.restart_node(self.node_id)
        return time.monotonic() - started


@dataclass(frozen=True, slots=True, kw_only=True)
class KillNodeTwice:
    """As `KillNode`, and once more as soon as it serves: recovery of a recovered log."""

    cluster: Cluster
    node_id: int

    def inject(self) -> None:
        once = KillNode(cluster=self.cluster, node_id=self.node_id)
        once.inject()
        once.heal()
        once.inject()

    def heal(self) -> float:
        return KillNode(cluster=self.cluster, node_id=self.node_id).heal()
