"""Which ports the processes of a replicated cluster listen on."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.process import free_port_block
from tests.support.replicated.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Ports by the numbers of the processes, which begin with 1."""

    controllers: dict[int, int]
    nodes: dict[int, int]
    gateways: dict[int, int]
    """The bootstrap ports of gateways without a node; behind each, one for every node."""
    shared: int
    """The bootstrap port of all nodes that have gateways, and of a balancer."""
    block: int
    """The ports of one gateway: the bootstrap port, and one for each node."""

    @classmethod
    def free(cls, shape: Shape) -> Ports:
        """Ports that nobody uses."""
        block = shape.nodes + 1
        blocks = 1 if shape.balancer else shape.gateways + bool(shape.combined)
        count = shape.controllers + shape.nodes + shape.room_in_front + blocks * block
        first_controller = free_port_block(count)
        first_node = first_controller + shape.controllers
        first_gateway = first_node + shape.nodes + shape.room_in_front
        # Behind a balancer all gateways have the same ports, on addresses of their own.
        step = 0 if shape.balancer else block
        return cls(
            controllers={n: first_controller + n - 1 for n in range(1, shape.controllers + 1)},
            nodes={n: first_node + n - 1 for n in range(1, shape.nodes + 1)},
            gateways={n: first_gateway + (n - 1) * step for n in range(1, shape.gateways + 1)},
            shared=first_gateway + shape.gateways * step,
            block=block,
        )

    def shared_block(self) -> range:
        """That of the nodes' gateways."""
        return range(self.shared, self.shared + self.block)

    def gateway_block(self, number: int) -> range:
        """That of a gateway without a node."""
        return range(self.gateways[number], self.gateways[number] + self.block)
