"""A cluster of several etcd members, controllers, nodes and gateways, each process its own.

Unlike in `nodes_cluster`, no process is restarted automatically: the test ends, pauses and starts
them. Every process ends with the test process (`--parent`).
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from highwater.model.errors import HighwaterError
from tests.support.cluster import COMPLAINT_WORDS, Node
from tests.support.cluster_view import is_whole, view_topics
from tests.support.embedded_cluster import wait_for_port
from tests.support.etcd import EtcdCluster
from tests.support.measured_process import resident_bytes
from tests.support.process import ManagedProcess, wait_until
from tests.support.replicated.commands import Commands
from tests.support.replicated.hosts import LOOPBACK, Loopback, NodeHosts, gateway_host
from tests.support.replicated.ports import Ports
from tests.support.replicated.shape import Shape
from tests.support.replicated.store import Store

START_TIMEOUT_S = 60.0
RESTART_TIMEOUT_S = 45.0
STOP_TIMEOUT_S = 25.0


class ReplicatedCluster:
    """Implements `tests.support.cluster.Cluster`, and more for those that break it.

    Processes are named node-1, controller-1, gateway-1 and so on. All calls come from one thread,
    the tests' main one: the kernel ends children with the thread that started them.
    """

    mode = "replicated"

    def __init__(
        self,
        directory: Path,
        shape: Shape | None = None,
        *,
        hosts: NodeHosts | None = None,
        data_dirs: Mapping[int, Path] | None = None,
        environments: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """`data_dirs` has the directories of nodes with a file system of their own."""
        self.shape = shape or Shape()
        in_nodes = self.shape.controllers if self.shape.controllers_in_nodes else 0
        assert in_nodes <= self.shape.combined
        self.hosts: NodeHosts = hosts or Loopback()
        self._directory = directory
        self._data_dirs = dict(data_dirs or {})
        self._environments = dict(environments or {})
        self._etcd: EtcdCluster | None = None
        self.ports = Ports.free(self.shape)
        self.store = Store(lambda: self.etcd)
        self._processes: dict[str, ManagedProcess] = {}
        self._killed_epochs: dict[int, int] = {}

    # ---- the cluster's life ----

    def start(self) -> None:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        shape = self.shape
        self.hosts.start(self.ports.nodes)
        (self._directory / "etcd").mkdir(parents=True, exist_ok=True)
        self._etcd = EtcdCluster(self._directory / "etcd", shape.etcd_members)
        self._etcd.__enter__()
        commands = self.commands
        for number in () if shape.controllers_in_nodes else self.ports.controllers:
            self._add(f"controller-{number}", commands.controller(number))
        for number in self.node_ids:
            self._add(f"node-{number}", commands.node(number, self.data_dir(number)))
        for number, port in self.ports.gateways.items():
            self._add(f"gateway-{number}", commands.gateway(f"gateway-{number}", port))
        if shape.balancer:
            self._add("balancer", commands.balancer())
        for process in self._processes.values():
            process.start()
        self._wait_gateways()
        wait_until(self._all_unfenced, timeout_s=START_TIMEOUT_S, what="all nodes, unfenced")

    def kill_everything(self) -> None:
        """Sends SIGKILL to every process, also etcd, and then waits for the end of all."""
        for node_id in self.node_ids:
            self.expect_end(node_id)
        members, processes = self.etcd.members, self._processes.values()
        for pid in [*(m.pid for m in members), *(p.pid for p in processes)]:
            os.kill(pid, signal.SIGKILL)
        for member in members:
            member.kill()
        for process in processes:
            process.kill()

    def start_everything(self) -> None:
        """Starts what `kill_everything` ended; returns when Metadata has all nodes unfenced.

        Controllers end if they find no etcd at their start, so they are started when it answers.
        """
        for member in self.etcd.members:
            member.start()
        self.etcd.wait_healthy()
        for process in self._processes.values():
            process.start()
        self._wait_gateways()
        for node_id in self.node_ids:
            self.wait_node(node_id)

    def stop(self) -> None:
        """Ends everything, at once and not in order; tests of an orderly end do that themselves."""
        for process in self._processes.values():
            if process.running:
                os.kill(process.pid, signal.SIGCONT)
            process.kill()
        if self._etcd is not None:
            self._etcd.stop()
        self.hosts.stop()

    def process(self, name: str) -> ManagedProcess:
        return self._processes[name]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all processes but etcd's."""
        return tuple(self._processes)

    @property
    def etcd(self) -> EtcdCluster:
        assert self._etcd is not None
        return self._etcd

    @property
    def commands(self) -> Commands:
        """Command lines of this cluster's processes, and of more that a test starts by itself."""
        return Commands(self.shape, self.hosts, self.ports, self.etcd.endpoints)

    @property
    def bootstrap(self) -> str:
        host = LOOPBACK if self.shape.gateways else self.hosts.address(1)
        return f"{host}:{self._first_port}"

    @property
    def bootstraps(self) -> str:
        """The addresses of all gateways, as bootstrap.servers."""
        alone = [f"{LOOPBACK}:{port}" for port in self.ports.gateways.values()]
        nodes = range(1, self.shape.combined + 1)
        return ",".join([*alone, *(self.own_address(node) for node in nodes)])

    def own_address(self, node_id: int) -> str:
        """The address of a node's own gateway, if it has one."""
        return f"{self.hosts.address(node_id)}:{self.ports.shared + node_id}"

    def bootstrap_beside(self, node_id: int) -> str:
        """The address of a gateway that works although this node hangs, or cannot be reached."""
        if self.shape.gateways:
            return self.bootstrap
        return self.own_address(next(other for other in self.node_ids if other != node_id))

    @property
    def _first_port(self) -> int:
        """The bootstrap port that tests use, and behind it a port for each node.

        It is that of a gateway which does not end when a node does, if there is one.
        """
        return self.ports.gateways[1] if self.shape.gateways else self.ports.shared

    @property
    def node_ids(self) -> tuple[int, ...]:
        return tuple(self.ports.nodes)

    @property
    def gateway_ids(self) -> tuple[int, ...]:
        return tuple(self.ports.gateways)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Those with a gateway in their process are at its port."""
        return tuple(self._node(n) for n in self.ports.nodes)

    def _node(self, node_id: int) -> Node:
        if node_id > self.shape.combined:
            return Node(node_id=node_id, host=LOOPBACK, port=self._first_port + node_id)
        host = LOOPBACK if self.shape.balancer else self.gateway_host(f"node-{node_id}")
        return Node(node_id=node_id, host=host, port=self.ports.shared + node_id)

    def data_dir(self, node_id: int) -> Path:
        return self._data_dirs.get(node_id, self._directory / f"node-{node_id}")

    def resident_bytes(self) -> int:
        return sum(resident_bytes(p.pid) for p in self._processes.values() if p.running)

    def complaints(self, expected: Sequence[str] = ()) -> list[str]:
        """Complaints of all logs, without the lines that have one of the expected words."""
        return [
            f"{name}: {line}"
            for name, process in self._processes.items()
            for line in process.lines_with(*COMPLAINT_WORDS, without=expected)
        ]

    def log_tail(self) -> str:
        tails = (f"--- {n}\n{p.log_tail(size=4096)}" for n, p in self._processes.items())
        return "\n".join(tails)

    # ---- what happens to nodes ----

    def kill_node(self, node_id: int) -> None:
        self.expect_end(node_id)
        self.process(f"node-{node_id}").kill()

    def kill_nodes(self, node_ids: Sequence[int]) -> None:
        """Sends SIGKILL to all of them, and then waits for their end."""
        for node_id in node_ids:
            self.expect_end(node_id)
        for node_id in node_ids:
            os.kill(self.process(f"node-{node_id}").pid, signal.SIGKILL)
        for node_id in node_ids:
            self.process(f"node-{node_id}").kill()

    def terminate_node(self, node_id: int) -> int | None:
        """SIGTERM; returns the exit code when it has ended."""
        self.expect_end(node_id)
        return self.process(f"node-{node_id}").stop(timeout_s=STOP_TIMEOUT_S)

    def start_node(self, node_id: int) -> None:
        """Starts a node that has ended; does not wait for anything."""
        self.process(f"node-{node_id}").start()

    def restart_node(self, node_id: int) -> None:
        """Starts a node that has ended; returns when it is unfenced and Metadata shows it."""
        self.start_node(node_id)
        self.wait_node(node_id)

    def wait_node(self, node_id: int, *, timeout_s: float = RESTART_TIMEOUT_S) -> None:
        """Waits until the current incarnation is unfenced in the store and in Metadata."""
        before = self._killed_epochs.get(node_id, 0)

        def serves() -> bool:
            process = self.process(f"node-{node_id}")
            if not process.running:
                raise RuntimeError(f"{process.name} ended:\n{process.log_tail()}")
            return self.store.node_epoch(node_id) > before and not self.store.is_fenced(node_id)

        wait_until(serves, timeout_s=timeout_s, what=f"node {node_id} unfenced")
        wait_until(
            lambda: node_id not in self._offline(),
            timeout_s=timeout_s,
            what=f"node {node_id} not offline in Metadata",
        )

    def start_gateway(self, number: int) -> None:
        """Starts a gateway that has ended; returns when it accepts."""
        self.process(f"gateway-{number}").start()
        self._wait_gateway(number)

    def _wait_gateways(self) -> None:
        for number in self.gateway_ids:
            self._wait_gateway(number)
        for number in range(1, self.shape.combined + 1):
            name = f"node-{number}"
            wait_for_port(self.process(name), self.gateway_host(name), self.ports.shared + number)
        if self.shape.balancer:
            wait_for_port(self.process("balancer"), LOOPBACK, self.ports.shared)

    def _wait_gateway(self, number: int) -> None:
        """Not for the ports of nodes that have a gateway in their process."""
        name, first = f"gateway-{number}", self.ports.gateways[number]
        for node in (0, *range(self.shape.combined + 1, self.shape.nodes + 1)):
            wait_for_port(self.process(name), self.gateway_host(name), first + node)

    def gateway_host(self, name: str) -> str:
        """The address that the gateway of a process, such as node-1 or gateway-1, listens on."""
        return gateway_host(name, self.shape, self.hosts)

    def pause(self, name: str) -> None:
        """Sends SIGSTOP to a process."""
        os.kill(self.process(name).pid, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Sends SIGCONT to a process."""
        os.kill(self.process(name).pid, signal.SIGCONT)

    # ---- what the cluster says of itself ----

    def active_controller(self) -> str:
        """The name of the active controller's process. Raises RuntimeError if there is none."""
        standing = self.standing_controllers()
        if not standing:
            raise RuntimeError("no controller stands for election")
        return standing[0]

    def standing_controllers(self) -> list[str]:
        """The candidates' processes in the election: the active controller, then the standbys."""
        kind = "node" if self.shape.controllers_in_nodes else "controller"
        names = {str(port): f"{kind}-{n}" for n, port in self.ports.controllers.items()}
        return [names[address.rpartition(":")[2]] for address in self.store.candidates()]

    def _all_unfenced(self) -> bool:
        for process in self._processes.values():
            if not process.running:
                raise RuntimeError(f"{process.name} ended:\n{process.log_tail()}")
        return not any(self.store.is_fenced(node) for node in self.node_ids)

    def _offline(self) -> set[int]:
        try:
            topics = view_topics(self.bootstrap)
        except (HighwaterError, OSError):
            return set(self.node_ids)
        return {node for parts in topics.values() for p in parts.values() for node in p.offline}

    def is_whole(self) -> bool:
        """True if every partition of every topic has a leader and a full ISR."""
        try:
            topics = view_topics(self.bootstrap)
        except (HighwaterError, OSError):
            return False
        return all(is_whole(partitions) for partitions in topics.values())

    def expect_end(self, node_id: int) -> None:
        """Notes the current incarnation, so that `wait_node` waits for the next one."""
        self._killed_epochs[node_id] = self.store.node_epoch(node_id)

    def _add(self, name: str, command: Sequence[str]) -> None:
        self._processes[name] = ManagedProcess(
            name,
            command,
            log_path=self._directory / f"{name}.log",
            environment=self._environments.get(name),
        )


def empty_directory(path: Path) -> None:
    """Removes everything in a directory, which is then like a new disk."""
    for entry in path.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
