"""Network namespaces for partition nodes, so that iptables can cut what lies between them.

    outside (the host) ── veth ── [switch: a bridge] ── veth ── [node 1] ... [node n]

Etcd, controllers, gateways and clients stay outside; nodes are at <net>.1 and so on, the outside at
<net>.254. The bridge has a namespace of its own, so that the host's rules do not filter it. Needs
root. Rules are put into the node's namespace: what comes in, and what goes out.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterable, Sequence

_TIMEOUT_S = 10
_OUTSIDE = 254


def missing() -> str | None:
    """Why there can be no such network here, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "iptables"):
        if shutil.which(program) is None:
            return f"no {program} on the path"
    name = f"hw-probe-{secrets.token_hex(3)}"
    made = _run("ip", "netns", "add", name, check=False)
    if made.returncode != 0:
        return f"no network namespaces: {made.stderr.decode().strip()}"
    try:
        rule = _run("ip", "netns", "exec", name, "iptables", "-L", "-n", check=False)
        return None if rule.returncode == 0 else f"no iptables: {rule.stderr.decode().strip()}"
    finally:
        _run("ip", "netns", "delete", name, check=False)


class NodeNetwork:
    """Implements `tests.support.replicated_cluster.NodeHosts`; `start`, cuts, `stop`."""

    def __init__(self) -> None:
        token = secrets.token_hex(2)
        self._token = token
        self._switch = f"hw-{token}-switch"
        self._net = f"10.{200 + secrets.randbelow(50)}.{secrets.randbelow(256)}"
        self._nodes: list[int] = []
        self.outside = f"{self._net}.{_OUTSIDE}"

    def start(self, nodes: Iterable[int]) -> None:
        self._nodes = list(nodes)
        try:
            self._make()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Namespaces take their interfaces with them."""
        for name in (*(self._name(node) for node in self._nodes), self._switch):
            _run("ip", "netns", "delete", name, check=False)
        _run("ip", "link", "delete", f"hw{self._token}o", check=False)

    def address(self, node: int) -> str:
        return f"{self._net}.{node}"

    def command(self, node: int, words: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", self._name(node), *words]

    # ---- cuts; peers are addresses ----

    def cut_incoming(self, node: int, peers: Iterable[str]) -> None:
        """The node hears nothing of them any more."""
        for peer in peers:
            self._rule(node, "-A", "INPUT", "-s", peer, "-j", "DROP")

    def cut_outgoing(self, node: int, peers: Iterable[str]) -> None:
        """They hear nothing of the node any more."""
        for peer in peers:
            self._rule(node, "-A", "OUTPUT", "-d", peer, "-j", "DROP")

    def cut_port(self, node: int, port: int) -> None:
        """The node reaches no server at that port of the outside any more."""
        outside, number = self.outside, str(port)
        self._rule(
            node, "-A", "OUTPUT", "-d", outside, "-p", "tcp", "--dport", number, "-j", "DROP"
        )
        self._rule(node, "-A", "INPUT", "-s", outside, "-p", "tcp", "--sport", number, "-j", "DROP")

    def lose(self, node: int, share: float) -> None:
        """That share of the packets that come in is lost."""
        self._rule(
            *(node, "-A", "INPUT", "-m", "statistic", "--mode", "random"),
            *("--probability", str(share), "-j", "DROP"),
        )

    def heal(self) -> None:
        """Takes all cuts away."""
        for node in self._nodes:
            self._rule(node, "-F")

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


def _run(*words: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(words, check=check, capture_output=True, timeout=_TIMEOUT_S)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"{' '.join(words)}: {error.stderr.decode().strip()}") from None
