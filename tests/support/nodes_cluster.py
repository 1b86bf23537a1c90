"""`highwater up --nodes N`: one command, a process for every node with its gateway, or, with
`--gateways G`, for every node and every gateway.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from highwater.hop.segment_files import INCARNATION_FILE
from highwater.hop.settings import HopTransport
from tests.support.cluster import COMPLAINT_WORDS, Node
from tests.support.embedded_cluster import HIGHWATER, wait_for_port
from tests.support.measured_process import resident_bytes
from tests.support.process import ManagedProcess, free_port_block, wait_until

_HOST = "127.0.0.1"
_PIDS_FILE = "pids.json"
_GATEWAY = "gateway"
_KILL_TIMEOUT_S = 10.0
_RESTART_TIMEOUT_S = 60.0


def hop_flags(hop: HopTransport) -> tuple[str, ...]:
    """The flags of `highwater up` for the transport between its gateways and nodes."""
    sections = ("gateway", "partition")
    return tuple(
        word for section in sections for word in ("--set", f"{section}.hop.transport={hop}")
    )


class NodesCluster:
    """Implements `tests.support.cluster.Cluster`; the supervisor restarts what is killed."""

    def __init__(
        self,
        directory: Path,
        *,
        mode: str,
        node_count: int,
        gateway_count: int | None = 1,
        hop: HopTransport = HopTransport.LOOP,
        settings: Sequence[str] = (),
    ) -> None:
        """`gateway_count` None: each node's process has one, and all have one block of ports.

        `settings` are those of `--set`.
        """
        self.mode = mode
        flags = ["--nodes", str(node_count)]
        if gateway_count is None:
            gateway_count = 1
        else:
            flags += ["--gateways", str(gateway_count)]
        self._data_dir = directory / "data"
        self._node_count = node_count
        self._gateway_count = gateway_count
        # For each gateway its bootstrap port, and behind it one for each node.
        self._port_count = gateway_count * (node_count + 1)
        self._port = free_port_block(self._port_count)
        self._nodes: tuple[Node, ...] = ()
        self._killed: dict[int, tuple[int, int]] = {}
        self.process = ManagedProcess(
            " ".join(("highwater up", *flags)),
            [
                str(HIGHWATER),
                *("up", *flags, "--host", _HOST, "--port", str(self._port)),
                *("--data-dir", str(self._data_dir)),
                *hop_flags(hop),
                *(word for each in settings for word in ("--set", each)),
            ],
            log_path=directory / "cluster.log",
        )

    @property
    def bootstrap(self) -> str:
        return f"{_HOST}:{self._port}"

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self._nodes

    def start(self) -> None:
        self.process.start()
        for port in range(self._port, self._port + self._port_count):
            wait_for_port(self.process, _HOST, port)
        wait_until(
            self._is_complete,
            timeout_s=_RESTART_TIMEOUT_S,
            what=f"{self._node_count} nodes behind {self._gateway_count} gateways in Metadata",
        )
        self._nodes = self._metadata_nodes()
        assert all(self._gateway_of(node) is not None for node in self._nodes), self._nodes

    def stop(self) -> None:
        self.process.stop()

    def kill_node(self, node_id: int) -> None:
        pid = self.node_pid(node_id)
        # Before the kill: the supervisor starts the next process at once.
        admitted = self._times_admitted(node_id)
        os.kill(pid, signal.SIGKILL)
        wait_until(
            lambda: not _is_alive(pid), timeout_s=_KILL_TIMEOUT_S, what=f"end of node {node_id}"
        )
        self._killed[node_id] = (pid, admitted)

    def restart_node(self, node_id: int) -> None:
        old, admitted = self._killed.pop(node_id)

        def replaced() -> bool:
            try:
                pid = self.node_pid(node_id)
            except KeyError:
                return False  # Ended and not yet started again.
            return pid != old and _is_alive(pid)

        wait_until(replaced, timeout_s=_RESTART_TIMEOUT_S, what=f"a new process of node {node_id}")
        # Until then Metadata may still show the old incarnation.
        wait_until(
            lambda: self._times_admitted(node_id) > admitted,
            timeout_s=_RESTART_TIMEOUT_S,
            what=f"the new incarnation of node {node_id} unfenced",
        )
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
        """The pid of the partition node."""
        pids = self._pids()
        for name in (f"node-{node_id}", f"partition-{node_id}"):
            if name in pids:
                return pids[name]
        raise KeyError(f"node {node_id} is none of {sorted(pids)}")

    def hide_files_from_gateways(self) -> None:
        """Restarts gateways with wrong tokens in the log directories, as if these were on another
        host, so that all records come over gRPC."""
        tokens = list(self._data_dir.rglob(INCARNATION_FILE))
        assert len(tokens) >= self._node_count
        for token in tokens:
            token.write_text("another host's")
        self._kill_gateways([name for name in self._pids() if name.startswith(_GATEWAY)])

    def kill_gateway_of(self, node_id: int) -> None:
        """Ends the gateway that serves a node's port with SIGKILL; returns when another one serves it.

        Only where gateways are processes of their own.
        """
        (node,) = (each for each in self._nodes if each.node_id == node_id)
        number = self._gateway_of(node)
        assert number is not None, node
        self._kill_gateways([f"{_GATEWAY}-{number + 1}"])
        wait_for_port(self.process, _HOST, node.port)

    def _kill_gateways(self, names: list[str]) -> None:
        old = [self._pids()[name] for name in names]
        for pid in old:
            os.kill(pid, signal.SIGKILL)
        for pid in old:
            wait_until(
                partial(_is_gone, pid), timeout_s=_KILL_TIMEOUT_S, what=f"end of gateway {pid}"
            )
        wait_until(
            self._is_complete, timeout_s=_RESTART_TIMEOUT_S, what="the gateways that come instead"
        )

    def _pids(self) -> dict[str, int]:
        """The processes' pids by name, from the list that the supervisor keeps."""
        found: dict[str, int] = json.loads((self._data_dir / _PIDS_FILE).read_text())
        return found

    def _times_admitted(self, node_id: int) -> int:
        """How many incarnations of the node the controller has unfenced, by its log."""
        with self.process.log_path.open(encoding="utf-8", errors="replace") as log:
            return sum(
                json.loads(line).get("node") == node_id
                for line in log
                if '"node_unfenced"' in line and line.startswith("{")
            )

    def _is_complete(self) -> bool:
        """True if all nodes are registered, and Metadata names every gateway for some of them."""
        nodes = self._metadata_nodes()
        gateways = {self._gateway_of(node) for node in nodes}
        return len(nodes) == self._node_count and len(gateways) == self._gateway_count

    def _gateway_of(self, node: Node) -> int | None:
        """The number (from 0) of the gateway whose port Metadata names for the node."""
        gateway, place = divmod(node.port - self._port, self._node_count + 1)
        return gateway if place == node.node_id and gateway < self._gateway_count else None

    def _metadata_nodes(self) -> tuple[Node, ...]:
        try:
            metadata = AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(timeout=5)
        except KafkaException:
            return ()
        return tuple(
            Node(node_id=broker.id, host=str(broker.host), port=broker.port)
            for broker in sorted(metadata.brokers.values(), key=lambda broker: broker.id)
        )

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


def _is_gone(pid: int) -> bool:
    return not _is_alive(pid)


def _is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
