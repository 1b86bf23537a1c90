"""Asks a cluster, as a client would, whether all its nodes are served."""

import socket
from typing import Final

from highwater.embed.clients.kafka_client import KafkaClient
from highwater.model.errors import HighwaterError

PROBE_TIMEOUT_S: Final = 2.0


def serves_all_nodes(host: str, port: int, nodes: int) -> bool:
    """True if a gateway lists so many nodes, and their addresses accept connections. Blocks.

    While a node is fenced, which hides it, a client's first topic might be refused.
    """
    try:
        with KafkaClient(f"{host}:{port}", timeout_s=PROBE_TIMEOUT_S) as client:
            brokers = client.live_brokers()
    except HighwaterError:
        return False
    return len(brokers) >= nodes and all(_accepts(*address) for address in brokers)


def strange_port(host: str, port: int, nodes: int, *, shared: bool) -> int | None:
    """The port of a gateway's block that another process has, which is of another cluster or none.

    Gateways go on without ports that they could not open. If nodes have gateways and share the
    bootstrap port (`shared`), that is the bootstrap port, since another node may have it; else those of
    nodes that registered later. As long as no port answers that cannot be another's nobody can know.
    Blocks.
    """
    behind = range(port + 1, port + nodes + 1)
    own, others = (behind, [port]) if shared else ([port], behind)
    clusters = {_cluster_id(host, each) for each in own} - {None}
    if not clusters:
        return None
    for each in others:
        if _accepts(host, each) and _cluster_id(host, each) not in clusters:
            return each
    return None


def _cluster_id(host: str, port: int) -> str | None:
    """None if no broker answers there."""
    try:
        with KafkaClient(f"{host}:{port}", timeout_s=PROBE_TIMEOUT_S) as client:
            return client.cluster_id()
    except HighwaterError:
        return None


def _accepts(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=PROBE_TIMEOUT_S):
            return True
    except OSError:
        return False
