"""Listening sockets: a block of ports, limits at accept, sweeps for idle and slow clients."""

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

from highwater.gateway.config import share_ports
from highwater.gateway.core.session_ports import RequestHandler
from highwater.gateway.core.shared_input import SharedInput
from highwater.gateway.login.gate import LoginGate
from highwater.gateway.quota.client_quotas import ClientQuotas
from highwater.gateway.routing.client import ClientSession
from highwater.gateway.routing.table import RoutingTable
from highwater.gateway.sockets.connection import SHORTAGES, Connection
from highwater.gateway.sockets.doors import Doors
from highwater.gateway.sockets.newcomers import ListenAddress, Newcomers, Way
from highwater.gateway.sockets.outbox import SenderPool
from highwater.gateway.sockets.tls_shared import SharedTls
from highwater.model.errors import BindError, ConfigError, PortInUseError
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId, NodeId
from highwater.runtime.listening import start_listening
from highwater.runtime.logging import Logger

BACKLOG: Final = 1024
DRAIN_LOOK_S: Final = 0.01
PORT_MAX: Final = 65_535
SWEEP_S: Final = 1.0
SHORTAGE_SILENCE_SWEEPS: Final = 10
UNREAD_SWEEPS_MAX: Final = 2
"""While replies are scarce of memory, a client that reads almost nothing for so long is closed."""
PROGRESS_BYTES_MIN: Final = 64 * 1024
"""A client that reads at all takes at least this much between two sweeps."""
SCARCE_SWEEPS_MAX: Final = 10
"""If replies stay scarce for longer, each sweep closes the client that holds most."""

PortKey: TypeAlias = tuple[str, InstanceId, NodeId | None]
"""What a port stands for: a listener's name, an instance, and a node or None for bootstrap."""


class Listener:
    """All ports of a gateway's listeners. `open_port` opens each; `close` ends everything."""

    def __init__(
        self,
        *,
        addresses: Mapping[str, ListenAddress],
        shared: SharedInput,
        handler: RequestHandler[ClientSession],
        gate: LoginGate,
        quotas: ClientQuotas,
        routing: RoutingTable,
        pool: SenderPool,
        tls: SharedTls,
        log: Logger,
        connections_max: int,
        idle_s_max: float,
        frame_s_max: float,
    ) -> None:
        """Limits in seconds; `addresses` by the names of listeners.

        `idle_s_max`: silence before a connection closes (connections.max.idle.ms);
        `frame_s_max`: how long a begun frame may stay incomplete, with no other frame completed.
        """
        self._addresses = addresses
        self._shared = shared
        self._log = log
        self._idle_sweeps_max = int(idle_s_max / SWEEP_S)
        self._frame_sweeps_max = int(frame_s_max / SWEEP_S)
        self._servers: dict[PortKey, asyncio.Server] = {}
        self._ports: dict[PortKey, int] = {}
        self.newcomers = Newcomers(
            shared=shared,
            handler=handler,
            gate=gate,
            quotas=quotas,
            routing=routing,
            pool=pool,
            tls=tls,
            log=log,
            now_ms=_loop_ms,
            connections_max=connections_max,
            on_shortage=self._descriptors_short,
        )
        """What becomes of those who connect, until they are connections."""
        self.connections = self.newcomers.connections
        self.doors = Doors(self.connections, log=log, now_ms=_loop_ms)
        """What each instance asks of those who connect by its ports."""
        self.descriptor_shortages = 0
        """Connections closed, and sweeps passed, while no descriptor was free."""
        self._shortage_told = 0
        """Sweeps until the next log line about it."""
        self._sweeper: asyncio.TimerHandle | None = None
        self._scarce_sweeps = 0

    async def open_port(
        self,
        listener: str,
        instance: InstanceId,
        node: NodeId | None,
        port: int,
        *,
        accept: bool = True,
    ) -> int:
        """Opens a listener's port for one (instance, node), and returns its number.

        Raises ConfigError if another listener of this gateway has it, PortInUseError, BindError.
        Without `accept`, the port is only reserved, until `start_accepting`.
        """
        loop = asyncio.get_running_loop()
        key: PortKey = (listener, instance, node)
        host = self._addresses[listener].host
        if port > PORT_MAX:
            raise BindError(f"{host}:{port}", f"ports end at {PORT_MAX}")
        self._check_apart(key, port)
        try:
            server = await loop.create_server(
                self._factory(key),
                host,
                port,
                backlog=BACKLOG,
                reuse_address=True,
                start_serving=False,
            )
            bound = int(server.sockets[0].getsockname()[1])
            if accept:
                await start_listening(server, f"{host}:{bound}")
        except OSError as error:
            address = f"{host}:{port}"
            # uvloop replaces the reason's text; the errno stays.
            if error.errno == 98 or "in use" in str(error):
                raise PortInUseError(address) from None
            raise BindError(address, str(error)) from None
        self._servers[key] = server
        if self._sweeper is None:
            self._sweeper = loop.call_later(SWEEP_S, self._sweep, loop)
        self._ports[key] = bound
        return bound

    @property
    def certificates(self) -> dict[str, bytes]:
        """Those of listeners with TLS, as PEM, as they are in use."""
        return {
            f"listener/{name}": address.tls.shown
            for name, address in self._addresses.items()
            if address.tls is not None
        }

    def has_port(self, listener: str, instance: InstanceId, node: NodeId | None) -> bool:
        """True if the listener has a port for that (instance, node)."""
        return (listener, instance, node) in self._servers

    def _check_apart(self, key: PortKey, port: int) -> None:
        """Raises ConfigError if another block has the port.

        The system would not always refuse it: two sockets of one port may both be bound until one
        of them listens.
        """
        host = self._addresses[key[0]].host
        for other, taken in self._ports.items():
            if other[:2] == key[:2] or taken != port:
                continue
            if share_ports(host, self._addresses[other[0]].host):
                raise ConfigError(
                    f"the port blocks of listeners {_block(other)} and {_block(key)} overlap: port {port} is "
                    f"{_meaning(other)} of {_block(other)} and {_meaning(key)} of {_block(key)}"
                )

    def close_port(self, listener: str, instance: InstanceId, node: NodeId | None) -> None:
        """Stops listening for that (instance, node); its connections stay open."""
        key: PortKey = (listener, instance, node)
        del self._ports[key]
        self._servers.pop(key).close()

    def close_block(self, listener: str, instance: InstanceId) -> list[Connection]:
        """Closes all ports of an instance at a listener; returns the connections that came by them."""
        for key in [key for key in self._servers if key[:2] == (listener, instance)]:
            self.close_port(*key)
        inside = self.doors.of(instance).connections
        return [each for each in inside if each.client.peer.listener == listener]

    async def drain(self, connections: list[Connection], drain_s: float, reason: str) -> None:
        """Closes each of them once it is at rest, and after `drain_s` those that still are not."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + drain_s
        while connections and loop.time() < deadline_s:
            # Each by itself: while one waits for its replies, another one would send again.
            for connection in connections:
                if connection.at_rest:
                    connection.leave(reason)
            connections = [each for each in connections if not each.closed]
            await asyncio.sleep(DRAIN_LOOK_S)
        for connection in connections:
            connection.close(reason)

    def send_away(self, listener: str, instance: InstanceId, node: NodeId) -> bool:
        """Closes connections by a node's port that wait for nothing but fetches, which clients repeat.

        True if no connection by that port is left.
        """
        inside = [c for c in self.doors.of(instance).connections if c.client.peer.node == node]
        found = [c for c in inside if c.client.peer.listener == listener]
        for connection in found:
            if connection.only_fetches:
                connection.close("the node has a gateway of its own")
        return not found

    def forget_shapes(self) -> None:
        """Makes every connection ask again for what it may do: ACLs have changed."""
        for connection in self.connections:
            connection.tail = connection.fetch_shape = None

    def _factory(self, key: PortKey) -> Callable[[], asyncio.BaseProtocol]:
        listener, instance, node = key
        door = self.doors.of(instance)
        way = Way(listener, instance, node, self._addresses[listener], door)
        return partial(self.newcomers.accept, way)

    def _descriptors_short(self, error: OSError) -> None:
        """Counts, and logs once in a while, because clients can cause this."""
        self.descriptor_shortages += 1
        if not self._shortage_told:
            self._shortage_told = SHORTAGE_SILENCE_SWEEPS
            self._log.error(
                "out_of_descriptors", error=str(error), connections=len(self.connections)
            )

    def _check_descriptors(self) -> None:
        """Without a free descriptor, the loop accepts and closes by itself, and reports nothing."""
        if self._shortage_told:
            self._shortage_told -= 1
        try:
            os.close(os.dup(next(iter(self._servers.values())).sockets[0].fileno()))
        except OSError as error:
            if error.errno in SHORTAGES:
                self._descriptors_short(error)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Closes silent connections, and those that begin a frame and do not finish it."""
        self._sweeper = loop.call_later(SWEEP_S, self._sweep, loop)
        self._shared.standstill.look()
        self._check_descriptors()
        self._reload_certificates()
        for connection in list(self.connections):
            if connection.ended and not connection.outstanding and not connection.waits_to_produce:
                connection.close("the client has ended its side")
                continue
            if self._takes_nothing(connection):
                connection.close("it does not read its replies and the memory is needed")
                continue
            if connection.frames_received != connection.frames_seen:
                connection.frames_seen = connection.frames_received
                connection.idle_sweeps = 0
                connection.stalled_sweeps = 0
                continue
            sent = connection.bytes_sent
            # A client that does not take its waiting replies is as idle as one that sends nothing.
            # One that is throttled may send nothing.
            moves = connection.outstanding > 0 or sent != connection.sent_seen or connection.muted
            connection.sent_seen = sent
            connection.idle_sweeps = 0 if moves else connection.idle_sweeps + 1
            # Also with requests in flight, or a long fetch would keep a frame's memory.
            connection.stalled_sweeps += connection.mid_frame and connection.reading
            if connection.idle_sweeps > self._idle_sweeps_max:
                connection.close("idle")
            elif connection.stalled_sweeps > self._frame_sweeps_max:
                connection.close("a frame was begun and not finished")
        self._relieve()

    def _reload_certificates(self) -> None:
        for name, address in self._addresses.items():
            if address.tls is None:
                continue
            try:
                if address.tls.reload():
                    self._log.info("certificate_loaded", listener=name)
            except ConfigError as error:
                self._log.error("certificate_not_loaded", listener=name, error=str(error))

    def _relieve(self) -> None:
        """Closes the largest holder: many slow readers must not keep all others from reading."""
        scarce = self._shared.budget.replies_scarce
        self._scarce_sweeps = self._scarce_sweeps + 1 if scarce else 0
        if self._scarce_sweeps > SCARCE_SWEEPS_MAX and self.connections:
            most = max(self.connections, key=lambda c: c.reply_bytes + c.output_bytes)
            most.close("it holds most of the memory for replies, which is needed")

    def _takes_nothing(self, connection: Connection) -> bool:
        """True for a slow reader; also if its replies wait behind one that a node delays."""
        sent = connection.bytes_sent
        holds = connection.behind or connection.reply_bytes
        slow = holds and sent - connection.taken_seen < PROGRESS_BYTES_MIN
        connection.taken_seen = sent
        connection.unread_sweeps = connection.unread_sweeps + 1 if slow else 0
        scarce = self._shared.budget.replies_scarce
        return scarce and connection.unread_sweeps > UNREAD_SWEEPS_MAX

    async def start_port(self, listener: str, instance: InstanceId, node: NodeId | None) -> None:
        """Accepts on one port that was reserved. Raises PortInUseError, and closes the port, if another
        process listens on it: both may have bound it.
        """
        key: PortKey = (listener, instance, node)
        try:
            await start_listening(
                self._servers[key], f"{self._addresses[listener].host}:{self._ports[key]}"
            )
        except PortInUseError:
            del self._servers[key], self._ports[key]
            raise

    async def start_accepting(self) -> None:
        """Accepts on all ports from now on. Raises PortInUseError."""
        for key, server in self._servers.items():
            host = self._addresses[key[0]].host
            await start_listening(server, f"{host}:{self._ports[key]}")

    async def stop_accepting(self) -> None:
        """Closes the listening sockets; connections stay open."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for server in self._servers.values():
            server.close()

    async def close(self, *, drain_s: float) -> None:
        """Closes each connection once it is at rest, and after `drain_s` those that still are not."""
        await self.stop_accepting()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + drain_s
        await self.drain(list(self.connections), drain_s, "the gateway stops")
        self.newcomers.close()
        for connection in list(self.connections):
            connection.close("the gateway stops")
        while self.connections and loop.time() < deadline + 1:  # noqa: ASYNC110 - once per stop.
            await asyncio.sleep(DRAIN_LOOK_S)
        self._servers.clear()


def _loop_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)


def _block(key: PortKey) -> str:
    listener, instance, _ = key
    return listener if instance == DEFAULT_INSTANCE else f"{listener} (instance {instance})"


def _meaning(key: PortKey) -> str:
    return "the bootstrap port" if key[2] is None else f"node {key[2]}"
