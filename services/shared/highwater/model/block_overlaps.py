"""Blocks of ports of several gateways with one advertised host, and what they leave each other.

A listener of a gateway has the bootstrap port P and, for node n, P + n. Blocks have no end of their own,
since nodes may always be added. So a block ends where the next one on the same host begins: if another
gateway has the bootstrap port Q > P there, P + n is this gateway's only for n < Q - P. Controller and
gateways decide by this rule, so that no port stands for two things.

Gateways with the same host and the same P share one block, and leave each other everything: nodes with
their own gateways on one host, or gateways behind one balancer.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from highwater.model.cluster import GatewayState
from highwater.model.ids import GatewayId, NodeId
from highwater.model.listener_names import DEFAULT_LISTENER


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockOverlap:
    """A listener's block in which the block of another gateway begins."""

    gateway_id: GatewayId
    listener: str
    host: str
    port: int
    """The bootstrap port of the listener."""
    other: GatewayId
    other_port: int
    """The bootstrap port of the other gateway, the next one on this host."""

    def takes(self, node: NodeId) -> bool:
        """True if the port of that node belongs to the other gateway."""
        return node >= self.other_port - self.port

    def __str__(self) -> str:
        """For operators."""
        return (
            f"ports from {self.other_port} on of listener {self.listener} of gateway "
            f"{self.gateway_id} ({self.host}:{self.port}), which are those of nodes from "
            f"{self.other_port - self.port} on, are in the block of gateway {self.other}: bootstrap "
            "ports on one host have to differ by more than the highest node id"
        )


def block_overlaps(gateways: Iterable[GatewayState]) -> list[BlockOverlap]:
    """All overlaps that nodes with large enough ids would meet: the next block of every listener."""
    everyone = list(gateways)
    begins: defaultdict[str, list[tuple[int, GatewayId]]] = defaultdict(list)
    for gateway in everyone:
        for _, host, port in _blocks(gateway):
            begins[host].append((port, gateway.gateway_id))
    for ports in begins.values():
        ports.sort()
    found = []
    for gateway in everyone:
        if gateway.single_port:
            continue
        for listener, host, port in _blocks(gateway):
            after = begins[host]
            first = bisect_right(after, port, key=lambda each: each[0])
            for other_port, other in after[first:]:
                if other != gateway.gateway_id:
                    found.append(
                        BlockOverlap(
                            gateway_id=gateway.gateway_id,
                            listener=listener,
                            host=host,
                            port=port,
                            other=other,
                            other_port=other_port,
                        )
                    )
                    break
    return found


def _blocks(gateway: GatewayState) -> Iterator[tuple[str, str, int]]:
    yield DEFAULT_LISTENER, gateway.host, gateway.port
    for each in gateway.listeners:
        yield each.name, each.host, each.port
