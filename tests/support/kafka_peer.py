"""Apache Kafka for comparison: one or more combined KRaft nodes from Maven's jars on 127.0.0.1."""

from __future__ import annotations

import base64
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.java_tools import java_command
from tests.support.measured_process import (
    resident_bytes,
    tail,
    wait_for_exit,
    wait_until_listening,
)
from tests.support.process import free_port_block

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
ADMIN_TIMEOUT_S = 30.0

# The JVM options of Kafka's own start script, with its default heap.
SERVER_JVM_OPTIONS = (
    "-Xms1g",
    "-Xmx1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)
_TOOL_JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


@dataclass(slots=True)
class _Node:
    node_id: int
    port: int
    controller_port: int
    others: Mapping[str, int]
    """Ports of further listeners, by protocol."""
    home: Path
    directory_id: str
    process: subprocess.Popen[bytes] | None = None

    @property
    def config(self) -> Path:
        return self.home / "server.properties"

    @property
    def log(self) -> Path:
        return self.home / "stdout.log"

    @property
    def voter(self) -> str:
        return f"{self.node_id}@127.0.0.1:{self.controller_port}:{self.directory_id}"


@dataclass(slots=True)
class KafkaPeer:
    """A Kafka cluster of `nodes` combined nodes; use as a context manager.

    `properties` are added to every node's server.properties. `protocols` are Kafka's security protocols,
    SSL for example: each node has a listener for each, beside the plain one that `bootstrap` names; their
    settings belong into `properties`. With `data_dir` the data stays
    there after the end; otherwise it lives in a temporary directory that stop() removes.
    `start_seconds` is the time from the first process start until every port accepted.
    """

    nodes: int = 1
    properties: Mapping[str, str] = field(default_factory=dict)
    protocols: Sequence[str] = ()
    data_dir: Path | None = None
    start_seconds: float = 0.0
    _root: Path | None = None
    _members: list[_Node] = field(default_factory=list)

    @property
    def bootstrap(self) -> str:
        """host:port of every node, separated by commas."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self._members)

    def bootstrap_of(self, protocol: str) -> str:
        """The same of the listeners for one of `protocols`."""
        return ",".join(f"127.0.0.1:{node.others[protocol]}" for node in self._members)

    @property
    def pids(self) -> list[int]:
        """Process ids of the nodes that were started and not stopped."""
        return [node.process.pid for node in self._members if node.process is not None]

    @property
    def log_dirs(self) -> list[Path]:
        """The `log.dirs` of each node: topic-partition directories are in them."""
        return [node.home / "data" for node in self._members]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Formats (once) and starts the nodes. Raises RuntimeError with the log's end."""
        if not self._members:
            self.format()
        started = time.monotonic()
        try:
            for node in self._members:
                self.launch(node.node_id)
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        self.start_seconds = time.monotonic() - started

    def wait_ready(self) -> None:
        """Returns when every node's port accepts. Raises RuntimeError with the log's end."""
        for node in self._members:
            self._wait_ready(node)

    def format(self) -> None:
        """Chooses ports, writes the configuration and formats the storage of every node."""
        self._root = self.data_dir or Path(tempfile.mkdtemp(prefix="kafka-peer-"))
        # Below the ephemeral range, so that a stopped node finds its port free when it restarts.
        each = 2 + len(self.protocols)
        first = free_port_block(each * self.nodes)
        self._members = [
            _Node(
                node_id=i + 1,
                port=first + each * i,
                controller_port=first + each * i + 1,
                others={name: first + each * i + n for n, name in enumerate(self.protocols, 2)},
                home=self._root / f"node{i + 1}",
                directory_id=_kafka_uuid(),
            )
            for i in range(self.nodes)
        ]
        cluster_id = _kafka_uuid()
        voters = ",".join(node.voter for node in self._members)
        for node in self._members:
            node.home.mkdir(parents=True, exist_ok=True)
            node.config.write_text(self._server_properties(node))
            if (node.home / "data" / "meta.properties").exists():
                continue
            _run(
                java_command(
                    "kafka.tools.StorageTool", "format", "-t", cluster_id,
                    "--initial-controllers", voters, "-c", str(node.config),
                    jvm_options=_TOOL_JVM_OPTIONS,
                )
            )  # fmt: skip

    def launch(self, node_id: int) -> int:
        """Starts the process of one formatted node, does not wait; returns its pid."""
        node = self._members[node_id - 1]
        assert node.process is None, f"node {node_id} already runs"
        command = java_command("kafka.Kafka", str(node.config), jvm_options=SERVER_JVM_OPTIONS)
        with node.log.open("ab") as log:
            node.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=node.home
            )
        return node.process.pid

    def kill(self, node_id: int) -> None:
        """Ends one node as `kill -9` does."""
        node = self._members[node_id - 1]
        assert node.process is not None, f"node {node_id} does not run"
        node.process.kill()
        node.process.wait(timeout=STOP_TIMEOUT_S)
        node.process = None

    def kill_all(self) -> None:
        """Kills every running node: in an orderly stop the last ones would wait for a quorum."""
        for node in self._members:
            if node.process is not None:
                self.kill(node.node_id)

    def stop(self) -> None:
        """Ends every node and removes the temporary data. Idempotent."""
        for node in self._members:
            if node.process is not None:
                wait_for_exit(node.process, STOP_TIMEOUT_S)
                node.process = None
        if self._root is not None and self.data_dir is None:
            shutil.rmtree(self._root, ignore_errors=True)
            self._root = None
            self._members = []

    def resident_bytes(self) -> int:
        """Resident memory of all nodes, bytes."""
        return sum(resident_bytes(pid) for pid in self.pids)

    def create_topic(
        self, name: str, partitions: int, configs: Mapping[str, str] | None = None
    ) -> None:
        """Creates a topic replicated to all nodes, up to three."""
        create_topic(self.bootstrap, name, partitions, configs, replication=min(self.nodes, 3))

    def delete_topics(self, names: Sequence[str]) -> None:
        """Deletes topics; Kafka removes their files in the background."""
        delete_topics(self.bootstrap, names)

    def _server_properties(self, node: _Node) -> str:
        replication = str(min(self.nodes, 3))
        ports = {"PLAINTEXT": node.port, **node.others, "CONTROLLER": node.controller_port}
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
        protocols = {name: name for name in ports} | {"CONTROLLER": "PLAINTEXT"}
        values = {
            "process.roles": "broker,controller",
            "node.id": str(node.node_id),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in protocols.items()
            ),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": ",".join(
                f"127.0.0.1:{each.controller_port}" for each in self._members
            ),
            "log.dirs": str(node.home / "data"),
            "offsets.topic.replication.factor": replication,
            "transaction.state.log.replication.factor": replication,
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": replication,
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        values.update(self.properties)
        return "".join(f"{name}={value}\n" for name, value in values.items())

    def _wait_ready(self, node: _Node) -> None:
        assert node.process is not None
        try:
            for port in (node.port, *node.others.values()):
                wait_until_listening(node.process, port, START_TIMEOUT_S)
        except RuntimeError as error:
            raise RuntimeError(f"Kafka node {node.node_id}: {error}\n{tail(node.log)}") from error


def create_topic(
    bootstrap: str,
    name: str,
    partitions: int,
    configs: Mapping[str, str] | None = None,
    *,
    replication: int = 1,
) -> None:
    """Creates a topic on any Kafka-compatible broker and waits until it is answered."""
    admin = _admin(bootstrap)
    topic = NewTopic(name, partitions, replication, config=dict(configs or {}))
    admin.create_topics([topic], operation_timeout=ADMIN_TIMEOUT_S)[name].result(ADMIN_TIMEOUT_S)


def delete_topics(bootstrap: str, names: Sequence[str]) -> None:
    """Deletes topics on any Kafka-compatible broker and waits until that is answered."""
    if not names:
        return
    admin = _admin(bootstrap)
    for future in admin.delete_topics(list(names), operation_timeout=ADMIN_TIMEOUT_S).values():
        future.result(ADMIN_TIMEOUT_S)


def _admin(bootstrap: str) -> AdminClient:
    # Level 4 is "warning": librdkafka otherwise comments on every client that ends early.
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 4})


def _kafka_uuid() -> str:
    """16 random bytes as Kafka writes ids: URL-safe base64 without padding or a leading dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, timeout=START_TIMEOUT_S, check=False)
    if done.returncode != 0:
        text = (done.stdout + done.stderr).decode("utf-8", "replace")
        raise RuntimeError(f"{command[-6:]} failed:\n{text[-2000:]}")
