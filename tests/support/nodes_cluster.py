"""`highwater up --nodes N`: one command that supervises a process for every service and node."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.support.cluster import COMPLAINT_WORDS, Node
from tests.support.embedded_cluster import HIGHWATER, wait_for_port
from tests.support.measured_process import resident_bytes
from tests.support.process import ManagedProcess, free_port_block, wait_until

_HOST = "127.0.0.1"
_PIDS_FILE = "pids.json"
_KILL_TIMEOUT_S = 10.0
_RESTART_TIMEOUT_S = 60.0


class NodesCluster:
    """Implements `tests.support.cluster.Cluster`; the supervisor restarts what is killed."""

    mode = "nodes3"

    def __init__(self, directory: Path, *, node_count: int) -> None:
        self._data_dir = directory / "data"
        self._node_count = node_count
        # The bootstrap port, and behind it one for each node.
        self._port = free_port_block(node_count + 1)
        self._killed: dict[int, int] = {}
        self.process = ManagedProcess(
            f"highwater up --nodes {node_count}",
            [
                str(HIGHWATER),
                *("up", "--nodes", str(node_count), "--host", _HOST, "--port", str(self._port)),
                *("--data-dir", str(self._data_dir)),
            ],
            log_path=directory / "cluster.log",
        )

    @property
    def bootstrap(self) -> str:
        return f"{_HOST}:{self._port}"

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(
            Node(node_id=index, host=_HOST, port=self._port + index)
            for index in range(1, self._node_count + 1)
        )

    def start(self) -> None:
        self.process.start()
        for port in range(self._port, self._port + self._node_count + 1):
            wait_for_port(self.process, _HOST, port)
        wait_until(
            lambda: len(self._metadata_nodes()) == self._node_count,
            timeout_s=_RESTART_TIMEOUT_S,
            what=f"{self._node_count} nodes in Metadata",
        )

    def stop(self) -> None:
        self.process.stop()

    def kill_node(self, node_id: int) -> None:
        pid = self.node_pid(node_id)
        self._killed[node_id] = pid
        os.kill(pid, signal.SIGKILL)
        wait_until(
            lambda: not _is_alive(pid), timeout_s=_KILL_TIMEOUT_S, what=f"end of node {node_id}"
        )

    def restart_node(self, node_id: int) -> None:
        old = self._killed.pop(node_id)

        def replaced() -> bool:
            try:
                pid = self.node_pid(node_id)
            except KeyError:
                return False  # Ended and not yet started again.
            return pid != old and _is_alive(pid)

        wait_until(replaced, timeout_s=_RESTART_TIMEOUT_S, what=f"a new process of node {node_id}")
        wait_until(
            self._all_partitions_have_leaders,
            timeout_s=_RESTART_TIMEOUT_S,
            what="leaders for all partitions",
        )

    def data_dir(self, node_id: int) -> Path:
        return self._data_dir / f"node-{node_id}"

    def resident_bytes(self) -> int:
        return resident_bytes(self.process.pid)

    def complaints(self) -> list[str]:
        return self.process.lines_with(*COMPLAINT_WORDS)

    def log_tail(self) -> str:
        return self.process.log_tail()

    def node_pid(self, node_id: int) -> int:
        """The pid of the partition node, from the list that the supervisor keeps."""
        pids: dict[str, int] = json.loads((self._data_dir / _PIDS_FILE).read_text())
        for name in (f"node-{node_id}", f"partition-{node_id}"):
            if name in pids:
                return pids[name]
        raise KeyError(f"node {node_id} is none of {sorted(pids)}")

    def _metadata_nodes(self) -> set[int]:
        try:
            return set(
                AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(timeout=5).brokers
            )
        except KafkaException:
            return set()

    def _all_partitions_have_leaders(self) -> bool:
        try:
            metadata = AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(timeout=5)
        except KafkaException:
            return False
        return all(
            partition.leader >= 0
            for topic in metadata.topics.values()
            for partition in topic.partitions.values()
        )


def _is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
