"""The brokers that can be measured, by name, and the ones that a set of rows needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import psutil

from tests.bench.peer import BreakablePeer, Peer
from tests.bench.peer_highwater import HIGHWATER_COMMANDS, Highwater
from tests.bench.peer_kafka import KAFKA_NODES, ApacheKafka
from tests.bench.peer_limit import LIMIT, LimitServer
from tests.bench.workloads import NODES_OF_REPLICATED, Workload

ONE_NODE_PEERS = ("embedded", "combined", "services")
THREE_NODE_PEERS = ("combined3", "services3")
NO_METADATA = "no-metadata"


class External(Peer):
    """A broker that was started elsewhere; with `no_metadata` it need not know about topics.

    Memory and processor time are those of process `pid` and its descendants; without `pid`, of the
    process that listens on the port, if this user may see it.
    """

    def __init__(self, address: str, *, no_metadata: bool, pid: int | None, nodes: int = 1) -> None:
        self.name = f"external:{address}"
        self.nodes = nodes
        self.bootstrap = address
        self.no_metadata = no_metadata
        self._pid = pid

    def prepare(self) -> None:
        if self._pid is not None:
            if not psutil.pid_exists(self._pid):
                raise RuntimeError(f"{self.name}: there is no process {self._pid}")
            return
        port = int(self.bootstrap.rpartition(":")[2])
        listening = [
            each.pid
            for each in psutil.net_connections("tcp")
            if each.status == psutil.CONN_LISTEN and each.laddr and each.laddr.port == port
        ]
        self._pid = next((pid for pid in listening if pid is not None), None)

    def launch(self) -> None:
        """Does nothing: it runs already."""

    def wait_ready(self) -> None:
        """Does nothing: the first run shows whether it is ready."""

    def stop(self) -> None:
        """Does nothing: it was not started here."""

    def create_topic(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        *,
        replication: int = 1,
        deep: bool = False,
    ) -> None:
        if not self.no_metadata:
            super().create_topic(name, partitions, configs, replication=replication, deep=deep)

    def delete_topic(self, name: str) -> None:
        if not self.no_metadata:
            super().delete_topic(name)

    def pids(self) -> Sequence[int]:
        return [self._pid] if self._pid else []

    def version(self) -> str:
        return f"a broker at {self.bootstrap}"


def make_peer(text: str) -> Peer:
    """`kafka`, `embedded`, `combined`, `services`, with three nodes `kafka3`, `combined3` or `services3`,
    `limit`, or `external:HOST:PORT[:no-metadata][:pid=N][:nodes=N]`.

    Raises ValueError.
    """
    if text in KAFKA_NODES or text in HIGHWATER_COMMANDS:
        return make_breakable_peer(text)
    if text == LIMIT:
        return LimitServer()
    kind, *words = text.split(":")
    if kind == "external" and len(words) >= 2:
        host, port, *options = words
        numbers = dict(option.split("=", 1) for option in options if "=" in option)
        flags = [option for option in options if "=" not in option]
        if (
            numbers.keys() <= {"pid", "nodes"}
            and all(number.isdecimal() for number in numbers.values())
            and set(flags) <= {NO_METADATA}
            and len(numbers) + len(flags) == len(options)
        ):
            return External(
                f"{host}:{port}",
                no_metadata=NO_METADATA in flags,
                pid=int(numbers["pid"]) if "pid" in numbers else None,
                nodes=int(numbers.get("nodes", "1")),
            )
    raise ValueError(f"unknown peer {text!r}")


def make_breakable_peer(text: str) -> BreakablePeer:
    """`make_peer` for peers that are started here. Raises ValueError."""
    if text in KAFKA_NODES:
        return ApacheKafka(text)
    if text in HIGHWATER_COMMANDS:
        return Highwater(text)
    raise ValueError(f"{text!r} is no peer whose nodes can be broken")


def default_peers(workloads: Sequence[Workload]) -> tuple[str, ...]:
    """Our peers that the rows need; without rows, those with one node, for start and memory."""
    names: tuple[str, ...] = ()
    if not workloads or any(row.nodes == 1 for row in workloads):
        names += ONE_NODE_PEERS
    if any(row.nodes == NODES_OF_REPLICATED for row in workloads):
        names += THREE_NODE_PEERS
    return names


def baseline_of(peers: Sequence[Peer]) -> str | None:
    """The name of Apache Kafka among peers that are measured in turn."""
    return next((peer.name for peer in peers if peer.name in KAFKA_NODES), None)


def limit_of(peers: Sequence[Peer]) -> str | None:
    """The name of the limit among peers that are measured in turn."""
    return next((peer.name for peer in peers if peer.name == LIMIT), None)
