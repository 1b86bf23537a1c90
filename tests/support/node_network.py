"""Network namespaces for partition nodes, so that iptables can cut their connections.

    outside (the host) ── veth ── [switch: a bridge] ── veth ── [node 1] ... [node n]

Etcd, controllers, gateways and clients stay outside; nodes are at <net>.1 and so on, the outside at
<net>.254. The bridge has a namespace of its own, so that the host's rules do not filter it. Needs
root. Rules are put into the node's namespace, for incoming and outgoing packets. During disorder a
process in the bridge's namespace forwards the frames between each node and the bridge.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

_TIMEOUT_S = 10
_OUTSIDE = 254
_FORWARDER = (sys.executable, "-m", "tests.support.frame_disorder")
_REPOSITORY = Path(__file__).parents[2]


@cache
def missing() -> str | None:
    """Why there can be no such network here, or None. Tries one with a single node, once."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "iptables"):
        if shutil.which(program) is None:
            return f"no {program} on the path"
    network = NodeNetwork()
    try:
        network.start([1])
        network.cut_incoming(1, [network.outside])
        network.lose(1, 0.5)
        network.heal()
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return f"no network of namespaces: {error}"
    finally:
        network.stop()
    return None


@cache
def disorder_missing() -> str | None:
    """Why frames cannot be reordered here, or None. Tries it once."""
    if why := missing():
        return why
    network = NodeNetwork()
    try:
        network.start([1])
        network.disorder(seed=1)
        network.order()
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return f"no forwarding of frames: {error}"
    finally:
        network.stop()
    return None


class NodeNetwork:
    """Implements `tests.support.replicated_cluster.NodeHosts`; `start`, cuts, `stop`.

    Raises RuntimeError if the kernel refuses an operation.
    """

    def __init__(self) -> None:
        token = secrets.token_hex(2)
        self._token = token
        self._switch = f"hw-{token}-switch"
        self._net = f"10.{200 + secrets.randbelow(50)}.{secrets.randbelow(256)}"
        self._nodes: list[int] = []
        self._forwarder: subprocess.Popen[bytes] | None = None
        self.outside = f"{self._net}.{_OUTSIDE}"

    def start(self, nodes: Iterable[int]) -> None:
        self._nodes = list(nodes)
        try:
            self._make()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Removes the namespaces, and with them their interfaces."""
        if self._forwarder is not None:
            self._forwarder.kill()
            self._forwarder.communicate(timeout=_TIMEOUT_S)
            self._forwarder = None
        for name in (*(self._name(node) for node in self._nodes), self._switch):
            _run("ip", "netns", "delete", name, check=False)
        _run("ip", "link", "delete", f"hw{self._token}o", check=False)

    def address(self, node: int) -> str:
        return f"{self._net}.{node}"

    def command(self, node: int, words: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", self._name(node), *words]

    # ---- cuts; peers are addresses ----

    def cut_incoming(self, node: int, peers: Iterable[str]) -> None:
        """Drops all packets from the peers to the node."""
        for peer in peers:
            self._rule(node, "-A", "INPUT", "-s", peer, "-j", "DROP")

    def cut_outgoing(self, node: int, peers: Iterable[str]) -> None:
        """Drops all packets from the node to the peers."""
        for peer in peers:
            self._rule(node, "-A", "OUTPUT", "-d", peer, "-j", "DROP")

    def cut_port(self, node: int, port: int) -> None:
        """Cuts the node off from servers at that port outside."""
        outside, number = self.outside, str(port)
        self._rule(
            node, "-A", "OUTPUT", "-d", outside, "-p", "tcp", "--dport", number, "-j", "DROP"
        )
        self._rule(node, "-A", "INPUT", "-s", outside, "-p", "tcp", "--sport", number, "-j", "DROP")

    def lose(self, node: int, share: float) -> None:
        """Drops that share of incoming packets."""
        self._rule(
            *(node, "-A", "INPUT", "-m", "statistic", "--mode", "random"),
            *("--probability", str(share), "-j", "DROP"),
        )

    def dropped(self, node: int) -> int:
        """The number of incoming packets that the node's rules have dropped."""
        words = ("iptables", "-w", "5", "-nvxL", "INPUT")
        told = _run("ip", "netns", "exec", self._name(node), *words).stdout.decode()
        rules = [line.split() for line in told.splitlines()]
        return sum(int(rule[0]) for rule in rules if rule[2:3] == ["DROP"])

    def heal(self) -> None:
        """Removes all cuts."""
        for node in self._nodes:
            self._rule(node, "-F")

    # ---- disorder ----

    def disorder(self, seed: int) -> None:
        """Makes frames to and from nodes come twice, out of order or late."""
        assert self._forwarder is None, "there is disorder"
        inside = ("ip", "netns", "exec", self._switch)
        for node in self._nodes:
            _run("ip", "-n", self._switch, "link", "add", f"far{node}", "type", "veth", "peer",
                 "name", f"join{node}")  # fmt: skip
            for interface in (f"far{node}", f"join{node}"):
                _run("ip", "-n", self._switch, "link", "set", interface, "up")
            _run("ip", "netns", "exec", self._name(node), *_FORWARDER, "complete", "eth0")
        joins = (f"join{node}" for node in self._nodes)
        _run(*inside, *_FORWARDER, "complete", *joins)
        pairs = (f"node{node}:far{node}" for node in self._nodes)
        self._forwarder = _forwarder((*inside, *_FORWARDER, "forward", str(seed), *pairs))
        for node in self._nodes:
            _run("ip", "-n", self._switch, "link", "set", f"node{node}", "nomaster")
            self._plug(f"join{node}")

    def order(self) -> dict[int, dict[str, int]]:
        """Ends the disorder; returns the counts of its faults by node."""
        assert self._forwarder is not None, "there is no disorder"
        forwarder = self._forwarder
        told, complaint = forwarder.communicate(timeout=_TIMEOUT_S)
        self._forwarder = None
        for node in self._nodes:
            _run("ip", "-n", self._switch, "link", "delete", f"far{node}")
            self._plug(f"node{node}")
        if forwarder.returncode != 0:
            raise RuntimeError(f"the forwarder ended: {complaint.decode().strip()}")
        counts = json.loads(told)
        return {node: counts[f"node{node}"] for node in self._nodes}

    def _rule(self, node: int, *words: str) -> None:
        _run("ip", "netns", "exec", self._name(node), "iptables", "-w", "5", *words)

    def _name(self, node: int) -> str:
        return f"hw-{self._token}-{node}"

    def _make(self) -> None:
        switch = ("-n", self._switch)
        _run("ip", "netns", "add", self._switch)
        _run("ip", *switch, "link", "add", "bridge", "type", "bridge")
        _run("ip", *switch, "link", "set", "bridge", "up")
        outside = f"hw{self._token}o"
        _run("ip", "link", "add", outside, "type", "veth", "peer", "name", "out", "netns",
             self._switch)  # fmt: skip
        self._plug("out")
        _run("ip", "addr", "add", f"{self.outside}/24", "dev", outside)
        _run("ip", "link", "set", outside, "up")
        for node in self._nodes:
            name = self._name(node)
            _run("ip", "netns", "add", name)
            _run("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name",
                 f"node{node}", "netns", self._switch)  # fmt: skip
            self._plug(f"node{node}")
            _run("ip", "-n", name, "addr", "add", f"{self.address(node)}/24", "dev", "eth0")
            for interface in ("lo", "eth0"):
                _run("ip", "-n", name, "link", "set", interface, "up")

    def _plug(self, interface: str) -> None:
        _run("ip", "-n", self._switch, "link", "set", interface, "master", "bridge", "up")


def _forwarder(words: Sequence[str]) -> subprocess.Popen[bytes]:
    """Starts a forwarder; it ends with its standard input, so with the tests at the latest."""
    pipe = subprocess.PIPE
    made = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, cwd=_REPOSITORY)
    assert made.stdout is not None
    readable, _, _ = select.select([made.stdout], [], [], _TIMEOUT_S)
    if not readable or made.stdout.readline() != b"ready\n":
        made.kill()
        complaint = made.communicate(timeout=_TIMEOUT_S)[1].decode().strip()
        raise RuntimeError(f"the forwarder is not ready: {complaint or 'it says nothing'}")
    return made


def _run(*words: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            words, check=check, capture_output=True, timeout=_TIMEOUT_S, cwd=_REPOSITORY
        )
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"{' '.join(words)}: {error.stderr.decode().strip()}") from None
