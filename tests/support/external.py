"""A cluster that the suite did not start: tests may use it, but not kill it or read its files."""

from __future__ import annotations

from pathlib import Path

from tests.support.cluster import Node
from tests.support.process import accepts_connections, wait_until

_START_TIMEOUT_S = 10.0


class ExternalCluster:
    """Implements `tests.support.cluster.Cluster` for a broker at a known address."""

    mode = "external"

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._host = host
        self._port = int(port)
        self._nodes: tuple[Node, ...] = ()

    @property
    def bootstrap(self) -> str:
        return f"{self._host}:{self._port}"

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self._nodes

    def start(self) -> None:
        from confluent_kafka.admin import AdminClient

        wait_until(
            lambda: accepts_connections(self._host, self._port),
            timeout_s=_START_TIMEOUT_S,
            what=f"a broker at {self.bootstrap}",
        )
        metadata = AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(timeout=10)
        self._nodes = tuple(
            Node(node_id=broker.id, host=str(broker.host), port=broker.port)
            for broker in sorted(metadata.brokers.values(), key=lambda broker: broker.id)
        )

    def stop(self) -> None:
        """Leaves the cluster as it is."""

    def kill_node(self, node_id: int) -> None:
        raise NotImplementedError(f"node {node_id} is not ours to kill")

    def restart_node(self, node_id: int) -> None:
        raise NotImplementedError(f"node {node_id} is not ours to restart")

    def data_dir(self, node_id: int) -> Path:
        raise NotImplementedError(f"node {node_id} is not ours to look into")

    def resident_bytes(self) -> int:
        raise NotImplementedError("the processes are not ours to look into")

    def complaints(self) -> list[str]:
        return []

    def log_tail(self) -> str:
        return f"(the log of {self.bootstrap} is not ours)"
