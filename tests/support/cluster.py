"""The port that cluster tests are written against, and the runners that implement it.

A test takes the `cluster` fixture and uses nothing but this protocol, so that it runs unchanged on
the embedded broker, on local processes, and on Apache Kafka as the oracle (`--cluster`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from highwater.hop.settings import HopTransport


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One broker as clients see it: the id in Metadata and the address that serves it."""

    node_id: int
    host: str
    port: int


class Cluster(Protocol):
    """A running broker or cluster that belongs to the test session.

    Lifecycle: `start` once, `stop` once; in between nodes may be killed and restarted. Everything
    blocks with a deadline and raises TimeoutError when it passes.
    """

    mode: str
    """The mode: embedded, nodes3, gateways2, grpcio3, combined3, kafka or external."""

    @property
    def bootstrap(self) -> str:
        """The bootstrap address, host:port."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The brokers, in order of their ids."""

    def start(self) -> None:
        """Starts everything and returns when all nodes serve."""

    def stop(self) -> None:
        """Ends everything that `start` and `restart_node` started."""

    def kill_node(self, node_id: int) -> None:
        """Ends the partition node with SIGKILL and returns when it is gone."""

    def restart_node(self, node_id: int) -> None:
        """Starts a killed node again on its data and returns when it serves."""

    def data_dir(self, node_id: int) -> Path:
        """The directory that holds the node's `<topic>-<partition>` directories."""

    def resident_bytes(self) -> int:
        """Resident memory of all processes of the cluster together."""

    def complaints(self) -> list[str]:
        """Log lines about errors and unexpected exceptions; none for brokers that are not ours."""

    def log_tail(self) -> str:
        """The end of the cluster's logs, for the report of a failing test."""


COMPLAINT_WORDS = ("Traceback", '"level": "error"', '"level": "critical"')
"""Words in Highwater's log lines about unexpected errors."""


_GATEWAYS: Mapping[str, int | None] = {
    "nodes3": 1,
    "gateways2": 2,
    "grpcio3": 1,
    "combined3": None,
}
"""Modes with three nodes, and their gateways; None: each node has its own."""


def make_cluster(mode: str, directory: Path, *, bootstrap: str | None = None) -> Cluster:
    """Makes the cluster for a mode, not started. Raises ValueError for an unknown mode.

    `directory` is empty and belongs to the cluster; `bootstrap` is for `external` only.
    """
    # Imported here: the runner of one mode needs software that another does not.
    if mode == "embedded":
        from tests.support.embedded_cluster import EmbeddedCluster

        return EmbeddedCluster(directory)
    if mode in _GATEWAYS:
        from tests.support.nodes_cluster import NodesCluster

        return NodesCluster(
            directory,
            mode=mode,
            node_count=3,
            gateway_count=_GATEWAYS[mode],
            hop=HopTransport.GRPCIO if mode == "grpcio3" else HopTransport.LOOP,
        )
    if mode == "kafka":
        from tests.support.kafka_cluster import KafkaCluster

        return KafkaCluster(directory)
    if mode == "external":
        from tests.support.external import ExternalCluster

        if bootstrap is None:
            raise ValueError("--cluster external needs --bootstrap HOST:PORT")
        return ExternalCluster(bootstrap)
    raise ValueError(
        f"unknown cluster mode {mode!r}: embedded, nodes3, gateways2, grpcio3, combined3, kafka or "
        "external"
    )


def partition_dir(cluster: Cluster, topic: str, partition: int) -> Path:
    """Returns the directory of a partition's log, on whichever node has it.

    Raises FileNotFoundError when no node has one.
    """
    name = f"{topic}-{partition}"
    for node in cluster.nodes:
        found = [path for path in cluster.data_dir(node.node_id).rglob(name) if path.is_dir()]
        if found:
            return found[0]
    raise FileNotFoundError(f"no directory {name} in any data directory")
