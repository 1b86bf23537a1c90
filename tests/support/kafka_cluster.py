"""Apache Kafka, to check the conformance tests themselves against."""

from __future__ import annotations

from pathlib import Path

from tests.support.cluster import Node
from tests.support.kafka_peer import KafkaPeer
from tests.support.measured_process import tail

_PROPERTIES = {
    "offsets.topic.num.partitions": "8",
    "log.segment.delete.delay.ms": "1000",
}


class KafkaCluster:
    """Implements `tests.support.cluster.Cluster` with one combined KRaft node."""

    mode = "kafka"

    def __init__(self, directory: Path) -> None:
        self._peer = KafkaPeer(data_dir=directory / "kafka", properties=_PROPERTIES)

    @property
    def bootstrap(self) -> str:
        return self._peer.bootstrap

    @property
    def nodes(self) -> tuple[Node, ...]:
        host, _, port = self.bootstrap.rpartition(":")
        return (Node(node_id=1, host=host, port=int(port)),)

    def start(self) -> None:
        self._peer.start()

    def stop(self) -> None:
        self._peer.stop()

    def kill_node(self, node_id: int) -> None:
        self._peer.kill(node_id)

    def restart_node(self, node_id: int) -> None:
        assert node_id == 1
        self._peer.start()

    def data_dir(self, node_id: int) -> Path:
        return self._peer.log_dirs[node_id - 1]

    def resident_bytes(self) -> int:
        return self._peer.resident_bytes()

    def complaints(self) -> list[str]:
        return []

    def log_tail(self) -> str:
        return tail(self._peer.log_dirs[0].parent / "stdout.log")
