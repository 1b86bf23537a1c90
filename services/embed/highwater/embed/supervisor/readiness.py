"""Asks a cluster from outside, as a client would, whether all of it is there."""

import socket
from typing import Final

from highwater.embed.kafka_client import KafkaClient
from highwater.model.errors import HighwaterError

PROBE_TIMEOUT_S: Final = 2.0


def serves_all_nodes(host: str, port: int, nodes: int) -> bool:
    """True if a gateway knows so many nodes that may lead, and their addresses accept. Blocks.

    A node that is still fenced would have a client's first topic refused.
    """
    try:
        with KafkaClient(f"{host}:{port}", timeout_s=PROBE_TIMEOUT_S) as client:
            brokers = client.live_brokers()
    except HighwaterError:
        return False
    return len(brokers) >= nodes and all(_accepts(*address) for address in brokers)


def _accepts(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=PROBE_TIMEOUT_S):
            return True
    except OSError:
        return False
