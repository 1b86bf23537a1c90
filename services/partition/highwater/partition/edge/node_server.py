"""A partition node's listening side: the server, its methods and health, and the end of its streams."""

import socket
from typing import Final

from highwater.hop.coordinator import CoordinatorPort
from highwater.hop.transport import SERVICE, make_server
from highwater.hop.unix_socket import socket_to_serve
from highwater.model.errors import BindError
from highwater.partition.config import PartitionConfig
from highwater.partition.data_plane.offsets import OffsetQueries
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.edge.server import add_to
from highwater.partition.edge.stream_drain import StreamDrain
from highwater.partition.node.log_dirs import LogDirRequests
from highwater.partition.node.loggers import LoggerQueries
from highwater.partition.node.node_replication import NodeReplication
from highwater.rpc.health import RpcHealth
from highwater.rpc.inner import Inner
from highwater.rpc.peer_memory import PeerMemory
from highwater.rpc.reports import OnFailure
from highwater.rpc.statistics import Statistics
from highwater.runtime.logging import Logger

ALL_ADDRESSES: Final = ("0.0.0.0", "::", "[::]")


class NodeServer:
    """From `start` to `stop`; before `stop`, `drain` ends the streams in order."""

    def __init__(
        self,
        config: PartitionConfig,
        on_failure: OnFailure,
        log: Logger,
        *,
        inner: Inner | None = None,
    ) -> None:
        """`on_failure` gets bugs that cost one call, by path. `inner` says whom it serves: all without."""
        self._config = config
        self._log = log
        self._inner = inner or Inner()
        self._inner.listens(config.host)
        self._server = make_server(
            config.host,
            config.port,
            config.hop.transport,
            on_failure,
            tls=self._inner.server_tls,
            guard=self._inner.guard(),
            memory=PeerMemory(config.hop.memory_bytes, tell=self._tell_given_up),
        )
        self._on_failure = on_failure
        self._health = RpcHealth((SERVICE,))
        self._health.add_to(self._server.methods)
        self._streams = StreamDrain()

    def add_methods(
        self,
        *,
        plane: DataPlane,
        queries: OffsetQueries,
        log_dirs: LogDirRequests,
        loggers: LoggerQueries,
        coordinator: CoordinatorPort,
        replication: NodeReplication | None = None,
    ) -> None:
        """See `add_to`."""
        add_to(
            self._server.methods,
            plane=plane,
            queries=queries,
            log_dirs=log_dirs,
            loggers=loggers,
            coordinator=coordinator,
            drain=self._streams,
            on_failure=self._on_failure,
            replication=replication,
        )

    async def start(self) -> None:
        """Binds and serves, with log directories that are locked. Raises PortInUseError or BindError."""
        await self._server.start()
        self._log.info("listening", address=self.address, unix_socket=await self._serve_beside())

    async def _serve_beside(self) -> str:
        """The path of the unix socket; empty without one, which costs time and nothing else."""
        if not self._config.hop.unix_sockets:
            return ""
        try:
            beside = socket_to_serve(self._config.log_dirs, private=not self._inner.is_open)
            return beside.path if await self._server.serve_beside(beside) else ""
        except BindError as error:
            self._log.warning("no_unix_socket", error=str(error))
            return ""

    @property
    def address(self) -> str:
        """host:port that the server listens on; after `start`."""
        return self._server.address

    @property
    def reachable_address(self) -> str:
        """An address for others: the machine's host name if the server listens on all addresses."""
        host, _, port = self.address.rpartition(":")
        return f"{socket.gethostname()}:{port}" if host in ALL_ADDRESSES else self.address

    def _tell_given_up(self, words: str) -> None:
        self._log.warning("peer_closed_for_memory", reason=words)

    async def set_serving(self, *, serving: bool) -> None:
        """What grpc.health.v1 says."""
        await self._health.set_serving(serving=serving)

    def statistics(self) -> Statistics | None:
        """This moment's numbers of connections, if the transport has any."""
        return self._server.statistics()

    async def drain(self, timeout_s: float) -> bool:
        """Ends all streams in order; False if some have not ended in time."""
        return await self._streams.run(timeout_s)

    async def stop(self, *, drain_s: float) -> None:
        """Refuses new calls, lets running ones end for `drain_s` seconds, then ends them."""
        await self._server.stop(drain_s=drain_s)
