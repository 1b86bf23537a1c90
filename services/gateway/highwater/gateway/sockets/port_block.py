"""The ports of one instance at one listener of a gateway: the bootstrap port P, and P + n for every node n.

The default instance has the listener's own block, which is opened with the gateway; those of other
instances come and go while it runs (`instance_ports`), and no gateway waits for their ports.

Node ids behind a block begin with 1 (the controller refuses 0 there), so no two of its ports are the
same. Blocks of gateways on one host must not overlap: their bootstrap ports differ by more than the
highest node id. If they overlap nevertheless, a block ends where the next one begins
(`highwater.model.block_overlaps`). There is one exception, for processes that are a node and its gateway:
all of them may have the same P, since ids keep their own ports apart. Then

- P + n belongs to the process of node n, which must have it;
- P is shared: a process takes it as soon as it is free, so that another one has it soon after its
  holder has died. Some leave it to others for a while after their start, until one of these has
  it, so that it is known who is first. It is never given back: a move would refuse clients, who gain nothing by it.

A gateway without a node does not start without P.

Both kinds have the ports of nodes without a gateway in their process. They have those of other nodes
only while the node's own gateway is gone: they give such a port back when that gateway registers, and
close the connections that came by it as soon as no write of theirs can be in doubt: their clients
meant that node. So behind a balancer, too, a node's port leads to its own gateway, wherever that is.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from highwater.gateway.sockets.listener import Listener
from highwater.model.block_overlaps import BlockOverlap
from highwater.model.cluster import ClusterImage
from highwater.model.errors import ConfigError, PortInUseError, UsageError
from highwater.model.ids import DEFAULT_INSTANCE, NO_NODE, InstanceId, NodeId
from highwater.model.listener_names import DEFAULT_LISTENER
from highwater.runtime.tasks import TaskOwner

RETRY_S: Final = 0.2
"""Between two tries to take a port that another process has."""
OWN_PORT_WAIT_S: Final = 15.0
"""For another process to give the node's port back. It does so with the image that has this gateway: at
once, unless the machine is so busy that its loop waits for its turn. Long, because a start ends here."""
OWN_PORT_LOOK_S: Final = 0.02


def _retry_s() -> float:
    return RETRY_S


class PortBlock:
    """See the module. `reserve`, then `open`; from then on it follows the images."""

    def __init__(
        self,
        listener: Listener,
        *,
        name: str = DEFAULT_LISTENER,
        instance: InstanceId = DEFAULT_INSTANCE,
        host: str,
        port: int,
        tasks: TaskOwner,
        node_id: NodeId = NO_NODE,
        single_port: bool = False,
        bootstrap_wait_s: float = 0,
        retry_s: Callable[[], float] = _retry_s,
        on_error: Callable[[UsageError], None],
    ) -> None:
        """`name` is the listener's; `instance` is whose block it is; `node_id` is the node in this process; `single_port`: P serves
        everything. `host` is for error messages. `bootstrap_wait_s`: for how long from `share` on a
        process with a node waits for another one to take P first. `retry_s` is the pause between two tries.

        `on_error` gets why the port of a node cannot be opened. It is tried again, and the same error
        is not told twice until the port was opened. It also gets that another gateway's block begins in
        this one, once there is a node whose port is in both.
        """
        self._listener = listener
        self._name = name
        self._instance = instance
        self._host = host
        self._port = port
        self._tasks = tasks
        self._node_id = node_id
        self._single_port = single_port
        self._has_node = node_id != NO_NODE and not single_port
        self._bootstrap_wait_s = bootstrap_wait_s if self._has_node else 0
        self._retry_s = retry_s
        self._bootstrap_from_s = 0.0
        """From when on this process takes P if that is free."""
        self._image: ClusterImage | None = None
        self._overlap: BlockOverlap | None = None
        self._retiring: set[NodeId] = set()
        """Nodes whose ports were given back, and whose clients are still connected here."""
        self._changed = asyncio.Event()
        self._is_open = False
        self._following: asyncio.Task[None] | None = None
        self._on_error = on_error
        self._told: dict[NodeId, str] = {}
        """The errors that `on_error` got, by the nodes of ports that are still not open."""
        self._own_missed_s: float | None = None
        """When the node's own port was first found taken; None while it is not."""
        self._told_overlap: BlockOverlap | None = None

    @property
    def port(self) -> int:
        """The bootstrap port; as it was bound, after `reserve`."""
        return self._port

    @property
    def own_port(self) -> int:
        """A port that no other gateway on this host has."""
        return self._port + self._node_id if self._has_node else self._port

    async def reserve(self) -> None:
        """Binds the port that the gateway needs, before it registers.

        Raises PortInUseError, BindError, UsageError.
        """
        if not self._has_node:
            self._port = await self._listener.open_port(
                self._name, self._instance, None, self._port, accept=False
            )
            return
        if self._port == 0:
            raise UsageError(
                "gateway.port 0 is for gateways without a node, and for brokers with single_port"
            )
        # If it is taken, perhaps by a process that serves it until this gateway is there.
        await self._try_own()

    async def open(self, image: ClusterImage, overlap: BlockOverlap | None) -> None:
        """Binds what the gateway does not start without: the port of its node or, without a node,
        those of nodes that have no gateway of their own. `overlap` is this block's, if there is one.

        Raises PortInUseError, BindError, ConfigError.
        """
        self._image, self._overlap = image, overlap
        if not self._has_node:
            await self._open_all()
            return
        deadline_s = asyncio.get_running_loop().time() + OWN_PORT_WAIT_S
        while not self._has(self._node_id):
            if not await self._try_own():
                if asyncio.get_running_loop().time() > deadline_s:
                    raise PortInUseError(f"{self._host}:{self._port + self._node_id}")
                await asyncio.sleep(OWN_PORT_LOOK_S)

    async def accept(self) -> None:
        """Listens on the port of its node, once all ports are bound. Raises PortInUseError.

        Another process may have begun to listen on it after this one had bound it, and gives it back with
        the image that has this gateway.
        """
        if not self._has_node:
            return
        deadline_s = asyncio.get_running_loop().time() + OWN_PORT_WAIT_S
        while not await self._accepts_own():
            if asyncio.get_running_loop().time() > deadline_s:
                raise PortInUseError(f"{self._host}:{self._port + self._node_id}")
            await asyncio.sleep(OWN_PORT_LOOK_S)

    async def share(self) -> None:
        """Follows the images from now on, and takes ports when they are free."""
        if self._single_port:
            return
        self._is_open = True
        self._bootstrap_from_s = asyncio.get_running_loop().time() + self._bootstrap_wait_s
        await self._take_free()
        self._following = self._tasks.start(self._follow(), name="ports")

    def begin(self, image: ClusterImage, overlap: BlockOverlap | None) -> None:
        """Opens it while the gateway runs, instead of `reserve`, `open` and `share`: what cannot be
        opened is told and tried again.
        """
        self._image, self._overlap = image, overlap
        self._is_open = True
        self._changed.set()
        self._following = self._tasks.start(self._follow(), name="ports")

    @property
    def missing(self) -> int:
        """How many of its ports could not be opened when it last tried."""
        return len(self._told)

    def close(self) -> None:
        """Opens nothing more; the listener closes what is open."""
        self._is_open = False
        if self._following is not None:
            self._following.cancel()

    def follow(self, image: ClusterImage, overlap: BlockOverlap | None) -> None:
        """Applies a new image."""
        self._image, self._overlap = image, overlap
        if self._is_open:
            self._give_back()
            self._changed.set()

    def _has(self, node: NodeId | None) -> bool:
        return self._listener.has_port(self._name, self._instance, node)

    async def _open(self, node: NodeId | None, *, accept: bool = True) -> None:
        await self._listener.open_port(
            self._name, self._instance, node, self._port + (node or 0), accept=accept
        )

    async def _open_all(self) -> None:
        errors: list[UsageError] = []
        for node in self._wanted():
            try:
                if not self._has(node):
                    await self._open(node)
            except UsageError as error:
                errors.append(error)  # The other ports can be opened all the same.
        if errors:
            raise errors[0]

    async def _accepts_own(self) -> bool:
        if not self._has(self._node_id) and not await self._try_own():
            return False
        with contextlib.suppress(PortInUseError):
            await self._listener.start_port(self._name, self._instance, self._node_id)
            return True
        return False

    async def _try_own(self) -> bool:
        with contextlib.suppress(PortInUseError):
            await self._open(self._node_id, accept=False)
            return True
        return False

    def _served_elsewhere(self) -> set[NodeId]:
        """Nodes that clients are told to reach at the gateway in the node's process, and those whose
        ports are in another gateway's block.
        """
        if self._image is None:
            return set()
        gateways, overlap = self._image.gateways, self._overlap
        return {
            node
            for node, gateway_id in self._image.node_gateways.items()
            if ((one := gateways.get(gateway_id)) is not None and one.node_id == node)
            or (overlap is not None and overlap.takes(node))
        } - {self._node_id}

    def _wanted(self) -> list[NodeId | None]:
        """What ports may stand for: bootstrap, and nodes without a gateway of their own."""
        if self._single_port:
            return [None]
        nodes = set() if self._image is None else set(self._image.nodes)
        own = [self._node_id] if self._has_node else []
        return [None, *own, *sorted(nodes - self._served_elsewhere() - {self._node_id})]

    async def _follow(self) -> None:
        """Takes ports when they are free, until it is cancelled."""
        while True:
            waits = self._retiring or not all(self._has(node) for node in self._wanted())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._retry_s() if waits else None):
                    await self._changed.wait()
            self._changed.clear()
            away = self._listener.send_away
            self._retiring = {
                node for node in self._retiring if not away(self._name, self._instance, node)
            }
            await self._take_free()

    async def _take_free(self) -> None:
        self._tell_overlap()
        wanted = self._wanted()
        for gone in self._told.keys() - {node or NO_NODE for node in wanted}:
            del self._told[gone]
        for node in wanted:
            if self._has(node):
                continue
            try:
                if node is not None or not await self._leaves_bootstrap():
                    await self._open(node)
            except UsageError as error:
                self._not_opened(node, error)
                continue
            if node == self._node_id:
                self._own_missed_s = None
            self._told.pop(node or NO_NODE, None)
            self._retiring.discard(node or NO_NODE)
        self._give_back()  # Images may have come meanwhile.

    async def _leaves_bootstrap(self) -> bool:
        """True while this process waits for another one to take P. Raises PortInUseError if one has."""
        if asyncio.get_running_loop().time() >= self._bootstrap_from_s:
            return False
        try:
            await self._open(None, accept=False)  # Does not keep another process from listening.
        except PortInUseError:
            self._bootstrap_from_s = 0
            raise
        self._listener.close_port(self._name, self._instance, None)
        return True

    def _not_opened(self, node: NodeId | None, error: UsageError) -> None:
        if self._has_node and isinstance(error, PortInUseError) and not self._misses_own(node):
            return  # Another process of the host serves it.
        if self._told.get(node or NO_NODE) != str(error):
            self._told[node or NO_NODE] = str(error)
            self._on_error(error)

    def _misses_own(self, node: NodeId | None) -> bool:
        """True if it is the node's own port, and no other process has given it back for long."""
        if node != self._node_id:
            return False
        now_s = asyncio.get_running_loop().time()
        if self._own_missed_s is None:
            self._own_missed_s = now_s
        return now_s - self._own_missed_s >= OWN_PORT_WAIT_S

    def _tell_overlap(self) -> None:
        if self._instance != DEFAULT_INSTANCE:
            return  # The listener's own block tells of the same overlap.
        overlap, nodes = self._overlap, () if self._image is None else self._image.nodes
        if overlap is None or not any(overlap.takes(node) for node in nodes):
            self._told_overlap = None
        elif overlap != self._told_overlap:
            self._told_overlap = overlap
            self._on_error(ConfigError(str(overlap)))

    def _give_back(self) -> None:
        for node in self._served_elsewhere():
            if self._has(node):
                self._listener.close_port(self._name, self._instance, node)
                self._retiring.add(node)
