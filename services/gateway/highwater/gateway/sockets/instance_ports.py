"""The blocks of ports of all instances but the default one, opened and closed as images come.

A block is that of an instance at one of the gateway's listeners (`InstanceListener`), and begins at its
port + the gateway's shift. It lives as long as an image has the instance, not deleted, with that port
there. After that its ports are closed at once, and its connections once their requests in flight have
ended, at the latest after the time for a drain.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from highwater.gateway.sockets import port_block
from highwater.gateway.sockets.listener import Listener
from highwater.gateway.sockets.port_block import PortBlock
from highwater.model.block_overlaps import BlockOverlap
from highwater.model.cluster import ClusterImage
from highwater.model.errors import UsageError
from highwater.model.ids import DEFAULT_INSTANCE, NO_NODE, InstanceId, NodeId
from highwater.runtime.tasks import TaskOwner

TRIES_PER_S: Final = 200
"""Of all blocks, to take ports that other processes have: each costs a tenth of a millisecond, and of nodes
with gateways on one host all but one try the bootstrap port of every instance."""


class BlockKey(NamedTuple):
    """Which block: an instance's at a listener."""

    listener: str
    instance: InstanceId


class InstancePorts:
    """See the module. `follow` opens the first blocks; the gateway accepts already."""

    def __init__(
        self,
        listener: Listener,
        hosts: Mapping[str, str],
        *,
        tasks: TaskOwner,
        node_id: NodeId = NO_NODE,
        single_port: bool = False,
        shift: int = 0,
        drain_s: float,
        on_error: Callable[[BlockKey, UsageError], None],
    ) -> None:
        """`hosts`: by the listener's name the address that it binds. `shift` is added to all ports.

        `node_id` and `single_port` are those of `PortBlock`; so is `on_error`, which also gets the block.
        """
        self._listener: Final = listener
        self._hosts: Final = hosts
        self._tasks: Final = tasks
        self._node_id: Final = node_id
        self._single_port: Final = single_port
        self._shift: Final = shift
        self._drain_s: Final = drain_s
        self._on_error: Final = on_error
        self._blocks: dict[BlockKey, PortBlock] = {}
        self._followed: ClusterImage | None = None

    @property
    def missing(self) -> dict[InstanceId, int]:
        """Of each instance with ports, how many of them could not be opened."""
        found: dict[InstanceId, int] = {}
        for key, block in self._blocks.items():
            found[key.instance] = found.get(key.instance, 0) + block.missing
        return found

    @property
    def retry_s(self) -> float:
        """The pause between two tries of a block."""
        return max(port_block.RETRY_S, len(self._blocks) / TRIES_PER_S)

    def follow(self, image: ClusterImage, overlaps: Mapping[str, BlockOverlap]) -> None:
        """Applies a new image; `overlaps` are those of this gateway's own blocks, by listener.

        Instances' blocks overlap those of other gateways where these blocks do, by their shifts.
        """
        before, self._followed = self._followed, image
        if before is None or image.instances != before.instances:
            wanted = self._wanted(image)
            for key in [k for k, block in self._blocks.items() if wanted.get(k) != block.port]:
                self._end(key)
            for key in wanted.keys() - self._blocks.keys():
                self._begin(key, wanted[key], image, overlaps.get(key.listener))
        if before is not None and _places(image) != _places(before):
            for key, block in self._blocks.items():
                block.follow(image, overlaps.get(key.listener))

    def close(self) -> None:
        """Opens nothing more; the listener closes what is open."""
        for block in self._blocks.values():
            block.close()
        self._blocks.clear()

    def _wanted(self, image: ClusterImage) -> dict[BlockKey, int]:
        """The bootstrap ports of all blocks."""
        return {
            BlockKey(block.listener, state.instance): block.port + self._shift
            for state in image.instances.values()
            if state.instance != DEFAULT_INSTANCE and not state.is_deleted
            for block in state.listeners
            if block.listener in self._hosts
        }

    def _begin(
        self, key: BlockKey, port: int, image: ClusterImage, overlap: BlockOverlap | None
    ) -> None:
        def not_opened(error: UsageError) -> None:
            self._on_error(key, error)

        block = self._blocks[key] = PortBlock(
            self._listener,
            name=key.listener,
            instance=key.instance,
            host=self._hosts[key.listener],
            port=port,
            tasks=self._tasks,
            node_id=self._node_id,
            single_port=self._single_port,
            retry_s=lambda: self.retry_s,
            on_error=not_opened,
        )
        block.begin(image, overlap)

    def _end(self, key: BlockKey) -> None:
        self._blocks.pop(key).close()
        inside = self._listener.close_block(key.listener, key.instance)
        if inside:
            self._tasks.start(
                self._listener.drain(
                    inside, self._drain_s, "its instance has no port here any more"
                ),
                name="drain-instance",
            )


def _places(image: ClusterImage) -> tuple[object, ...]:
    """What the ports of a block depend on."""
    return image.nodes.keys(), image.gateways, image.node_gateways
