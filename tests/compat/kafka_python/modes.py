"""The clusters that kafka-python's suite runs on, with the settings that it expects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.compat.kafka_python.exclusions import EVERYWHERE, THREE_NODES
from tests.compat.kafka_python.suite import BROKER_SETTINGS, Suite
from tests.compat.kafka_python.verdict import Exclusion, Verdict
from tests.support.cluster import COMPLAINT_WORDS
from tests.support.embedded_cluster import EmbeddedCluster
from tests.support.nodes_cluster import NodesCluster

MODES: Final = ("embedded", "nodes3")
_STALLED: Final = "event_loop_stalled"
"""A log line that tells of a busy machine, and not of the suite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteRun:
    """What the suite found on one cluster."""

    verdict: Verdict
    complaints: Sequence[str]
    """Of the cluster's log: unexpected errors."""

    @property
    def good(self) -> bool:
        """True if all is as expected, on both sides."""
        return self.verdict.good and not self.complaints

    def report(self) -> str:
        """For the terminal."""
        told = [f"COMPLAINT {line}" for line in self.complaints]
        return "\n".join([*told, *self.verdict.lines()])


def run_mode(mode: str, directory: Path, tests: Sequence[str] = ()) -> SuiteRun:
    """Starts a cluster, runs all tests of the suite or some on it, and ends it.

    `directory` is empty and keeps all logs. Raises ValueError for an unknown mode, and what
    `Suite.run` raises.
    """
    cluster, exclusions = _cluster(mode, directory / "cluster")
    try:
        cluster.start()
        suite = Suite(directory=directory / "suite")
        verdict = suite.run(cluster.bootstrap, exclusions, tests)
        complaints = cluster.process.lines_with(*COMPLAINT_WORDS, without=(_STALLED,))
        return SuiteRun(verdict=verdict, complaints=complaints)
    finally:
        cluster.stop()


def _cluster(
    mode: str, directory: Path
) -> tuple[EmbeddedCluster | NodesCluster, Sequence[Exclusion]]:
    if mode == "embedded":
        settings = (*BROKER_SETTINGS, "partition.node_id=0")
        return EmbeddedCluster(directory, settings=settings), EVERYWHERE
    if mode == "nodes3":
        cluster = NodesCluster(directory, mode=mode, node_count=3, settings=BROKER_SETTINGS)
        return cluster, THREE_NODES
    raise ValueError(f"unknown mode {mode!r}: {' or '.join(MODES)}")
