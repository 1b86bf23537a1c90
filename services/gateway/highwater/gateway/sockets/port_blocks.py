"""The port blocks of all listeners of a gateway (see `port_block`), opened together.

Those of instances follow when the gateway accepts (see `instance_ports`).
"""

from collections.abc import Callable, Mapping
from typing import Final

from highwater.gateway.sockets.instance_ports import BlockKey, InstancePorts
from highwater.gateway.sockets.listener import Listener
from highwater.gateway.sockets.port_block import PortBlock
from highwater.model.block_overlaps import BlockOverlap, block_overlaps
from highwater.model.cluster import ClusterImage, GatewayState
from highwater.model.errors import UsageError
from highwater.model.ids import NO_NODE, GatewayId, NodeId
from highwater.model.listener_names import DEFAULT_LISTENER
from highwater.runtime.tasks import TaskOwner


class PortBlocks:
    """See the module. `reserve`, then `open`; from then on it follows the images."""

    def __init__(
        self,
        listener: Listener,
        ports: Mapping[str, tuple[str, int]],
        *,
        tasks: TaskOwner,
        node_id: NodeId = NO_NODE,
        single_port: bool = False,
        bootstrap_wait_s: float = 0,
        instance_shift: int = 0,
        drain_s: float = 0,
        on_error: Callable[[UsageError], None],
        on_instance_error: Callable[[BlockKey, UsageError], None],
    ) -> None:
        """`ports`: by the listener's name the address that it binds, with the bootstrap port.

        `node_id`, `single_port`, `bootstrap_wait_s` and `on_error` are those of `PortBlock`;
        `instance_shift`, `drain_s` and `on_instance_error` are for `InstancePorts`.
        """
        self._listener = listener
        self._gateway_id = GatewayId("")
        self._newest: ClusterImage | None = None
        self._gateways: Mapping[GatewayId, GatewayState] = {}
        self._overlaps: dict[str, BlockOverlap] = {}
        """This gateway's among `_gateways`."""
        self._blocks: Final = {
            name: PortBlock(
                listener,
                name=name,
                host=host,
                port=port,
                tasks=tasks,
                node_id=node_id,
                single_port=single_port,
                bootstrap_wait_s=bootstrap_wait_s,
                on_error=on_error,
            )
            for name, (host, port) in ports.items()
        }

        self.instances: Final = InstancePorts(
            listener,
            {name: host for name, (host, _) in ports.items()},
            tasks=tasks,
            node_id=node_id,
            single_port=single_port,
            shift=instance_shift,
            drain_s=drain_s,
            on_error=on_instance_error,
        )
        self._is_open = False

    def port(self, name: str) -> int:
        """A listener's bootstrap port; as it was bound, after `reserve`."""
        return self._blocks[name].port

    @property
    def own_port(self) -> int:
        """A port of the default listener that no other gateway on this host has."""
        return self._blocks[DEFAULT_LISTENER].own_port

    async def reserve(self) -> None:
        """Binds the ports that the gateway needs, before it registers.

        Raises PortInUseError, BindError, ConfigError, UsageError.
        """
        for block in self._blocks.values():
            await block.reserve()

    async def open(self, image: ClusterImage, gateway_id: str) -> None:
        """Listens on everything. Raises PortInUseError, BindError, ConfigError.

        `gateway_id` is the one that this gateway has registered with.
        """
        self._gateway_id = GatewayId(gateway_id)
        self._gateways = {}  # Overlaps that `follow` has looked for were nobody's until now.
        for name, block in self._blocks.items():
            await block.open(image, self._overlaps_in(image).get(name))
        for block in self._blocks.values():
            await block.accept()
        await self._listener.start_accepting()
        for block in self._blocks.values():
            await block.share()
        self._is_open = True
        self.instances.follow(self._newest or image, self._overlaps_in(self._newest or image))

    def follow(self, image: ClusterImage) -> None:
        """Applies a new image."""
        self._newest = image
        for name, block in self._blocks.items():
            block.follow(image, self._overlaps_in(image).get(name))
        if self._is_open:
            self.instances.follow(image, self._overlaps_in(image))

    def _overlaps_in(self, image: ClusterImage) -> dict[str, BlockOverlap]:
        """By the names of listeners."""
        if image.gateways != self._gateways:
            self._gateways = image.gateways
            self._overlaps = {
                each.listener: each
                for each in block_overlaps(image.gateways.values())
                if each.gateway_id == self._gateway_id
            }
        return self._overlaps

    def close(self) -> None:
        """Opens nothing more; the listener closes what is open."""
        self._is_open = False
        self.instances.close()
        for block in self._blocks.values():
            block.close()
