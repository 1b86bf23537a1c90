"""The hop's transport: gRPC on the event loop's own sockets, or grpcio.

Both speak gRPC, so the two ends of a connection may differ. What uses channels and servers is
written against the ports here and in `rpc.ports`.
"""

from collections.abc import Callable
from typing import Final, Protocol

from highwater.hop.settings import HopTransport
from highwater.hop.unreachable import UnreachableChannel
from highwater.rpc.addresses import TcpAddress, UnixAddress
from highwater.rpc.channel import Channel
from highwater.rpc.grpcio_channel import GrpcioChannel
from highwater.rpc.grpcio_server import GrpcioServer
from highwater.rpc.guard import Guard
from highwater.rpc.metadata import Metadata, no_metadata
from highwater.rpc.methods import Methods
from highwater.rpc.peer_memory import PeerMemory
from highwater.rpc.ports import RpcChannel
from highwater.rpc.reports import OnFailure
from highwater.rpc.server import RpcServer
from highwater.rpc.statistics import Statistics
from highwater.rpc.tls import ClientTls, ServerTls

SERVICE: Final = "highwater.api.partition.v1.PartitionService"
MESSAGE_BYTES_MAX: Final = 128 << 20
"""One batch may be as large as a client's frame, and travels in one message."""
IDEMPOTENT: Final = (
    "ListOffsets",
    "OffsetsForLeaderEpoch",
    "DescribeProducers",
    "DescribeLogDirs",
    "DescribeLoggers",
)
"""Reads that a channel repeats when the node is unavailable. Not ReadRange: whoever asks that goes
on with another node. Not DeleteRecords: up to the high watermark would be more the second time."""


def path_of(method: str) -> str:
    """The path of one of the partition service's methods."""
    return f"/{SERVICE}/{method}"


class HopChannel(RpcChannel, Protocol):
    """A channel to one partition node. Only calls of `IDEMPOTENT` may be `idempotent`."""

    def statistics(self) -> Statistics | None:
        """This moment's numbers, if the transport has any."""
        ...


class HopServer(Protocol):
    """A partition node's server."""

    @property
    def methods(self) -> Methods:
        """Complete before `start`."""
        ...

    @property
    def address(self) -> str:
        """host:port, for peers and logs; after `start`."""
        ...

    @property
    def port(self) -> int:
        """The port that the server listens on; after `start`."""
        ...

    async def start(self) -> None:
        """Binds and serves. Raises PortInUseError or BindError."""
        ...

    async def serve_beside(self, address: UnixAddress) -> bool:
        """Serves at a unix socket, too, after `start`; False if the transport does not.

        Raises BindError. What is at its path is removed: the directory is the caller's.
        """
        ...

    async def stop(self, *, drain_s: float) -> None:
        """Refuses new calls, lets running ones end for `drain_s` seconds, then ends them."""
        ...

    def statistics(self) -> Statistics | None:
        """This moment's numbers, if the transport has any."""
        ...


OpenChannel = Callable[[str, UnixAddress | None], HopChannel]
"""Makes a channel to an address, or to the node's unix socket while that can be reached."""


def open_channel(
    address: str,
    transport: HopTransport,
    on_failure: OnFailure,
    *,
    tls: ClientTls | None = None,
    proof: Callable[[], Metadata] = no_metadata,
    nearby: UnixAddress | None = None,
    memory: PeerMemory | None = None,
) -> HopChannel:
    """A channel to host:port, which connects when there is a call to make; plain without `tls`.

    `proof` gives what calls show; `on_failure` takes the bugs of callbacks. If `address` is none,
    nobody is reached there. `nearby` is tried before `address` each time, plain, but not by grpcio.
    `memory` bounds what all channels that share it keep for their peers, also not over grpcio.
    """
    if transport is HopTransport.GRPCIO:
        return GrpcioChannel(
            address,
            message_bytes_max=MESSAGE_BYTES_MAX,
            idempotent_paths=[path_of(method) for method in IDEMPOTENT],
            tls=tls,
            proof=proof,
            on_failure=on_failure,
        )
    try:
        return Channel(
            address,
            message_bytes_max=MESSAGE_BYTES_MAX,
            tls=None if tls is None else lambda: tls.context,
            proof=proof,
            on_failure=on_failure,
            nearby=nearby,
            memory=memory,
        )
    except ValueError as error:
        return UnreachableChannel(str(error))


def make_server(
    host: str,
    port: int,
    transport: HopTransport,
    on_failure: OnFailure,
    *,
    tls: ServerTls | None = None,
    guard: Guard | None = None,
    memory: PeerMemory | None = None,
) -> HopServer:
    """A server that is not started; plain without `tls`, for all without `guard`.

    `on_failure` takes the bugs of handlers, by path. `memory` bounds what is kept for all peers, but
    not over grpcio.
    """
    if transport is HopTransport.GRPCIO:
        return GrpcioServer(
            host,
            port,
            message_bytes_max=MESSAGE_BYTES_MAX,
            tls=tls,
            guard=guard,
            on_failure=on_failure,
        )
    return RpcServer(
        TcpAddress(host, port),
        message_bytes_max=MESSAGE_BYTES_MAX,
        tls=None if tls is None else lambda: tls.context,
        guard=guard,
        memory=memory,
        on_failure=on_failure,
    )
