"""A cluster of several etcd members, controllers, nodes and gateways, each process its own.

Unlike in `nodes_cluster`, no process is restarted automatically: the test ends, pauses and starts
them. Every process ends with the test process (`--parent`).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from highwater.controller.store import keys
from highwater.hop.settings import HopTransport
from highwater.model.errors import HighwaterError
from highwater.model.ids import NodeId
from tests.support.cluster import COMPLAINT_WORDS, Node
from tests.support.cluster_view import is_whole, view_topics
from tests.support.embedded_cluster import wait_for_port
from tests.support.etcd import EtcdCluster
from tests.support.measured_process import resident_bytes
from tests.support.process import ManagedProcess, free_port_block, wait_until

START_TIMEOUT_S = 60.0
RESTART_TIMEOUT_S = 45.0
STOP_TIMEOUT_S = 25.0
_LOOPBACK = "127.0.0.1"
_ETCD_PREFIX = "/highwater/"
_HIGHWATER = (sys.executable, "-m", "highwater.embed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The numbers of processes, and settings that differ from the defaults."""

    nodes: int = 3
    combined: int = 0
    """How many of the nodes, from 1 on, have a gateway in their process; all these share a block."""
    controllers: int = 2
    controllers_in_nodes: bool = False
    """Controller n is a third role of node n's process; every node has a gateway then."""
    gateways: int = 1
    """Gateways without a node."""
    room_in_front: int = 0
    """Free ports in front of the first gateway's block, for one that a test starts by itself."""
    balancer: bool = False
    """All gateways have the same ports, each on an address of its own, behind a balancer."""
    etcd_members: int = 3
    hop: HopTransport = HopTransport.LOOP
    """Of gateways and nodes, unless `settings` say otherwise for some."""
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By section ("controller"), or by process ("node-2"), which wins: name -> value."""


class NodeHosts(Protocol):
    """Where nodes run: all on loopback, or each in a network namespace of its own."""

    @property
    def outside(self) -> str:
        """The address at which nodes reach the other services."""

    def start(self, nodes: Iterable[int]) -> None:
        """Creates the network."""

    def stop(self) -> None:
        """Removes the network."""

    def address(self, node: int) -> str:
        """The address of a node."""

    def command(self, node: int, words: Sequence[str]) -> list[str]:
        """The command line that runs `words` there."""


class Loopback:
    """Every node on 127.0.0.1. Implements `NodeHosts`."""

    outside = _LOOPBACK

    def start(self, nodes: Iterable[int]) -> None:
        pass

    def stop(self) -> None:
        pass

    def address(self, node: int) -> str:
        return _LOOPBACK

    def command(self, node: int, words: Sequence[str]) -> list[str]:
        return list(words)


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
        shape = self.shape
        blocks = 1 if shape.balancer else shape.gateways + bool(shape.combined)
        count = shape.controllers + shape.nodes + shape.room_in_front + blocks * (shape.nodes + 1)
        first = free_port_block(count)
        self.controller_ports = {n: first + n - 1 for n in range(1, shape.controllers + 1)}
        first += shape.controllers
        self.node_ports = {n: first + n - 1 for n in range(1, shape.nodes + 1)}
        first += shape.nodes + shape.room_in_front
        block = 0 if shape.balancer else shape.nodes + 1
        self._gateway_ports = {n: first + (n - 1) * block for n in range(1, shape.gateways + 1)}
        self._shared_port = first + shape.gateways * block
        """The bootstrap port of the nodes that have gateways."""
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
        self.hosts.start(self.node_ports)
        (self._directory / "etcd").mkdir(parents=True, exist_ok=True)
        self._etcd = EtcdCluster(self._directory / "etcd", shape.etcd_members)
        self._etcd.__enter__()
        for number in () if shape.controllers_in_nodes else self.controller_ports:
            self._add(f"controller-{number}", self._controller_command(number))
        for number in self.node_ports:
            self._add(f"node-{number}", self.node_command(number))
        for number in self._gateway_ports:
            name = f"gateway-{number}"
            self._add(name, self.gateway_command(name, self._gateway_ports[number]))
        if shape.balancer:
            self._add("balancer", self._balancer_command())
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
    def bootstrap(self) -> str:
        host = _LOOPBACK if self.shape.gateways else self.hosts.address(1)
        return f"{host}:{self._first_port}"

    @property
    def bootstraps(self) -> str:
        """The addresses of all gateways, as bootstrap.servers."""
        alone = [f"{_LOOPBACK}:{port}" for port in self._gateway_ports.values()]
        nodes = range(1, self.shape.combined + 1)
        return ",".join([*alone, *(self.own_address(node) for node in nodes)])

    def own_address(self, node_id: int) -> str:
        """The address of a node's own gateway, if it has one."""
        return f"{self.hosts.address(node_id)}:{self._shared_port + node_id}"

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
        return self._gateway_ports[1] if self.shape.gateways else self._shared_port

    @property
    def shared_port(self) -> int:
        """The bootstrap port of all nodes that have gateways."""
        return self._shared_port

    @property
    def shared_port_block(self) -> range:
        """That port, and behind it one for each node."""
        return range(self._shared_port, self._shared_port + self.shape.nodes + 1)

    @property
    def node_ids(self) -> tuple[int, ...]:
        return tuple(self.node_ports)

    @property
    def gateway_ids(self) -> tuple[int, ...]:
        return tuple(self._gateway_ports)

    def gateway_port_block(self, number: int) -> range:
        """The bootstrap port of a gateway, and behind it one for each node."""
        first = self._gateway_ports[number]
        return range(first, first + self.shape.nodes + 1)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Those with a gateway in their process are at its port."""
        return tuple(self._node(n) for n in self.node_ports)

    def _node(self, node_id: int) -> Node:
        if node_id > self.shape.combined:
            return Node(node_id=node_id, host=_LOOPBACK, port=self._first_port + node_id)
        host = _LOOPBACK if self.shape.balancer else self.gateway_host(f"node-{node_id}")
        return Node(node_id=node_id, host=host, port=self._shared_port + node_id)

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
            return self.node_epoch(node_id) > before and not self.is_fenced(node_id)

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
            wait_for_port(self.process(name), self.gateway_host(name), self._shared_port + number)
        if self.shape.balancer:
            wait_for_port(self.process("balancer"), _LOOPBACK, self._shared_port)

    def _wait_gateway(self, number: int) -> None:
        """Not for the ports of nodes that have a gateway in their process."""
        name, first = f"gateway-{number}", self._gateway_ports[number]
        for node in (0, *range(self.shape.combined + 1, self.shape.nodes + 1)):
            wait_for_port(self.process(name), self.gateway_host(name), first + node)

    def gateway_host(self, name: str) -> str:
        """The address that the gateway of a process, such as node-1 or gateway-1, listens on."""
        kind, _, number = name.partition("-")
        if self.shape.balancer:
            return f"127.0.{1 if kind == 'node' else 2}.{number}"
        return self.hosts.address(int(number)) if kind == "node" else _LOOPBACK

    def pause(self, name: str) -> None:
        """Sends SIGSTOP to a process."""
        os.kill(self.process(name).pid, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Sends SIGCONT to a process."""
        os.kill(self.process(name).pid, signal.SIGCONT)

    # ---- what the metadata store says ----

    def node_epoch(self, node_id: int) -> int:
        """The epoch of the last registration; 0 if there is none or the store does not answer."""
        entry = self._entry(keys.node_registration(NodeId(node_id)))
        return 0 if entry is None else entry["mod_revision"]

    def is_fenced(self, node_id: int) -> bool:
        """Also true while the store does not answer."""
        entry = self._entry(keys.node_state(NodeId(node_id)))
        return entry is None or bool(json.loads(entry["value"])["fenced"])

    def store_revision(self) -> int:
        """The revision of the metadata store."""
        told = self.etcd.members[0].ctl("get", _ETCD_PREFIX, "--write-out=json")
        return int(json.loads(told.stdout)["header"]["revision"])

    def active_controller(self) -> str:
        """The name of the active controller's process. Raises RuntimeError if there is none."""
        standing = self.standing_controllers()
        if not standing:
            raise RuntimeError("no controller stands for election")
        return standing[0]

    def standing_controllers(self) -> list[str]:
        """The candidates' processes in the election: the active controller, then the standbys."""
        entries = self._entries(keys.ELECTION, "--prefix")
        entries.sort(key=lambda entry: entry["create_revision"])
        kind = "node" if self.shape.controllers_in_nodes else "controller"
        names = {str(port): f"{kind}-{n}" for n, port in self.controller_ports.items()}
        addresses = (json.loads(entry["value"])["address"] for entry in entries)
        return [names[address.rpartition(":")[2]] for address in addresses]

    def _entry(self, key: str) -> dict[str, Any] | None:
        entries = self._entries(key)
        return entries[0] if entries else None

    def _entries(self, key: str, *flags: str) -> list[dict[str, Any]]:
        """The entries, from the first member of etcd that answers; empty if none does."""
        for member in self.etcd.members:
            if not member.running:
                continue
            told = member.ctl("get", _ETCD_PREFIX + key, *flags, "--write-out=json", check=False)
            if told.returncode == 0:
                return [_decoded(entry) for entry in json.loads(told.stdout).get("kvs", [])]
        return []

    def _all_unfenced(self) -> bool:
        for process in self._processes.values():
            if not process.running:
                raise RuntimeError(f"{process.name} ended:\n{process.log_tail()}")
        return not any(self.is_fenced(node) for node in self.node_ids)

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
        self._killed_epochs[node_id] = self.node_epoch(node_id)

    # ---- command lines ----

    def node_command(
        self, node_id: int, *, data_dir: Path | None = None, port: int = 0
    ) -> list[str]:
        """A node's command; another directory and port are for a second process with its id."""
        host, name = self.hosts.address(node_id), f"node-{node_id}"
        settings = {
            "host": host,
            "port": str(port or self.node_ports[node_id]),
            "node_id": str(node_id),
            "rack": f"rack-{node_id}",
            "log_dirs": json.dumps([str(data_dir or self.data_dir(node_id))]),
            "controllers": self._controllers(),
            "quota_address": "",
            "group_initial_rebalance_delay_ms": "0",
            "group_consumer_assignment_interval_ms": "0",
        }
        if node_id > self.shape.combined:
            return self.hosts.command(node_id, self._command("partition", name, settings))
        given = self.shape.settings
        hop = self._hop_settings()
        merged = {
            "partition": {**settings, **hop, **given.get("partition", {}), **given.get(name, {})},
            "gateway": {
                **self._gateway_settings(name, self._shared_port),
                **hop,
                "rack": f"rack-{node_id}",
                **given.get("gateway", {}),
            },
        }
        if self.shape.controllers_in_nodes and node_id in self.controller_ports:
            own, others = self._controller_settings(node_id), given.get("controller", {})
            merged["controller"] = {**own, **others}
            merged["broker"] = {"roles": json.dumps(["gateway", "partition", "controller"])}
        words = [*_HIGHWATER, "broker", "--parent", str(os.getpid())]
        for section, values in merged.items():
            for key, value in values.items():
                words += ["--set", f"{section}.{key}={value}"]
        return self.hosts.command(node_id, words)

    def _controller_command(self, number: int) -> list[str]:
        settings = self._controller_settings(number)
        return self._command("controller", f"controller-{number}", settings)

    def _controller_settings(self, number: int) -> dict[str, str]:
        return {
            "host": self.hosts.outside,
            "port": str(self.controller_ports[number]),
            "controller_id": f"controller-{number}",
            "store": "etcd",
            "etcd.endpoints": json.dumps(self.etcd.endpoints),
            "internal_replication_factor": str(min(3, self.shape.nodes)),
        }

    def gateway_command(self, name: str, port: int) -> list[str]:
        """The command of a gateway without a node."""
        settings = self._gateway_settings(name, port)
        return self._command("gateway", name, {**settings, "gateway_id": name})

    def _gateway_settings(self, name: str, port: int) -> dict[str, str]:
        settings = {
            "host": self.gateway_host(name),
            "port": str(port),
            "controllers": self._controllers(),
            "auto_create_topics": "false",
        }
        if self.shape.balancer:
            settings |= {
                "advertised_host": _LOOPBACK,
                "proxy_protocol": "true",
                "proxy_networks": f'["{_LOOPBACK}"]',
            }
        return settings

    def _balancer_command(self) -> list[str]:
        names = [f"gateway-{n}" for n in self._gateway_ports]
        names += [f"node-{n}" for n in range(1, self.shape.combined + 1)]
        settings = {
            "host": _LOOPBACK,
            "port": str(self._shared_port),
            "ports": str(self.shape.nodes + 1),
            "gateways": json.dumps([self.gateway_host(name) for name in names]),
            "check_s": "0.2",
        }
        return self._command("balancer", "balancer", settings)

    def _controllers(self) -> str:
        outside = self.hosts.outside
        return json.dumps([f"{outside}:{port}" for port in self.controller_ports.values()])

    def _command(self, section: str, name: str, settings: Mapping[str, str]) -> list[str]:
        given = self.shape.settings
        if section in ("gateway", "partition"):
            settings = {**settings, **self._hop_settings()}
        merged = {**settings, **given.get(section, {}), **given.get(name, {})}
        words = [*_HIGHWATER, section, "--parent", str(os.getpid())]
        for key, value in merged.items():
            words += ["--set", f"{key}={value}"]
        return words

    def _hop_settings(self) -> dict[str, str]:
        # Sockets in the file system would lead past networks that a test cuts.
        one_host = isinstance(self.hosts, Loopback)
        return {"hop.transport": self.shape.hop, "hop.unix_sockets": str(one_host).lower()}

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


def _decoded(entry: dict[str, Any]) -> dict[str, Any]:
    import base64

    return {**entry, "value": base64.b64decode(entry["value"]).decode()}
