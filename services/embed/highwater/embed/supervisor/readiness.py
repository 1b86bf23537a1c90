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


def bootstrap_is_taken(host: str, port: int, nodes: int) -> bool:
    """True if what accepts on the bootstrap port is not of the cluster of its nodes. Blocks.

    For nodes that share that port: none of them needs it, since another one may have it, so none says
    that a strange process has. As long as no node answers at its own port nobody can know.
    """
    own = {_cluster_id(host, port + node) for node in range(1, nodes + 1)} - {None}
    return bool(own) and _accepts(host, port) and _cluster_id(host, port) not in own


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
