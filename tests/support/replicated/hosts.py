"""Where the nodes of a replicated cluster run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from tests.support.replicated.shape import Shape

LOOPBACK: Final = "127.0.0.1"


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

    outside = LOOPBACK

    def start(self, nodes: Iterable[int]) -> None:
        pass

    def stop(self) -> None:
        pass

    def address(self, node: int) -> str:
        return LOOPBACK

    def command(self, node: int, words: Sequence[str]) -> list[str]:
        return list(words)


def gateway_host(name: str, shape: Shape, hosts: NodeHosts) -> str:
    """The address that the gateway of a process, such as node-1 or gateway-1, listens on."""
    kind, _, number = name.partition("-")
    if shape.balancer:
        return f"127.0.{1 if kind == 'node' else 2}.{number}"
    return hosts.address(int(number)) if kind == "node" else LOOPBACK
