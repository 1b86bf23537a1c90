"""Which ports a balancer publishes for instances, and to which ports of gateways they lead."""

from typing import Final

from highwater.model.cluster import ClusterImage
from highwater.model.ids import DEFAULT_INSTANCE, NodeId
from highwater.model.instances import node_port

PORT_MAX: Final = 65_535


def instance_ports(image: ClusterImage, listener: str) -> dict[int, int]:
    """By the balancer's port that of the gateways, for all instances with a block at the listener.

    Clients are told `advertised_port`, so that is the balancer's. Of two instances with the same one the
    first by name has it.
    """
    found: dict[int, int] = {}
    for name in sorted(image.instances):
        state = image.instances[name]
        block = state.listener(listener)
        if name == DEFAULT_INSTANCE or state.is_deleted or block is None:
            continue
        published = block.advertised_port or block.port
        for node in (NodeId(0), *sorted(image.nodes)):
            port = node_port(published, node, single_port=False)
            gateways = node_port(block.port, node, single_port=False)
            if max(port, gateways) <= PORT_MAX:
                found.setdefault(port, gateways)
    return found
