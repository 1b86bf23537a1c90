"""The controllers' addresses with their stubs, and which of them is believed to be active."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, Protocol

import grpc
import grpc.aio

from highwater.api.controller.v1 import cluster_pb2 as cluster_pb
from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.api.controller.v1 import controller_service_pb2_grpc as rpc
from highwater.metadata.in_process import InProcessStub
from highwater.rpc.grpcio_guard import ProvingChannel, client_credentials
from highwater.rpc.inner import Inner
from highwater.runtime.grpc_channel import open_channel
from highwater.runtime.tasks import TaskOwner

HINTED_ADDRESSES_MAX: Final = 16
"""Addresses that hints of controllers may add to the configured ones."""
FORMER_MAX: Final = 2
"""Connections with certificates that have changed: their calls and watches go on."""
CLOSE_TIMEOUT_S: Final = 2.0


class ControllerStub(Protocol):
    """Stub of the ControllerService. `ControllerClient` calls the other methods by their names."""

    def Heartbeat(  # noqa: N802 - the name is the proto's.
        self, request: pb.HeartbeatRequest, *, timeout: float
    ) -> Awaitable[pb.HeartbeatResponse]:
        """`timeout` is in seconds. Raises grpc.RpcError."""
        ...


class MetadataStub(Protocol):
    """Stub of the MetadataService."""

    def WatchCluster(  # noqa: N802 - the name is the proto's.
        self, request: pb.WatchClusterRequest
    ) -> AsyncIterator[cluster_pb.ClusterChange]:
        """Raises grpc.RpcError."""
        ...


class Endpoint(Protocol):
    """One controller."""

    address: str
    controller: ControllerStub
    metadata: MetadataStub

    async def connect(self) -> None:
        """Returns when the connection is up; the caller sets a time limit.

        Raises TimeoutError at once if the connection is refused.
        """
        ...

    async def close(self) -> None:
        """Closes the connection."""
        ...


class GrpcEndpoint:
    """A controller behind a channel that belongs to the running loop."""

    def __init__(self, address: str, inner: Inner | None = None) -> None:
        """Certificates are those of this moment; without `inner` it is plain and shows nothing."""
        shown = inner or Inner()
        self.address = address
        self._channel: grpc.aio.Channel = open_channel(
            address, credentials=client_credentials(shown.client_tls)
        )
        proving = ProvingChannel(self._channel, lambda: shown.proof)
        channel = self._channel if shown.secret is None else proving
        self.controller: ControllerStub = rpc.ControllerServiceStub(channel)  # type: ignore[no-untyped-call]
        self.metadata: MetadataStub = rpc.MetadataServiceStub(channel)  # type: ignore[no-untyped-call]

    async def connect(self) -> None:
        """See Endpoint."""
        # `channel_ready` would wait for a dead controller to come back, while another one serves.
        state = self._channel.get_state(try_to_connect=True)
        while state is not grpc.ChannelConnectivity.READY:
            if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                raise TimeoutError(f"{self.address} refuses connections")
            await self._channel.wait_for_state_change(state)
            state = self._channel.get_state(try_to_connect=True)

    async def close(self) -> None:
        """See Endpoint."""
        await self._channel.close(None)


class InProcessEndpoint:
    """A controller in this process, by its two servicers."""

    address = "in-process"

    def __init__(self, controller: object, metadata: object) -> None:
        self.controller: ControllerStub = InProcessStub(controller)
        self.metadata: MetadataStub = InProcessStub(metadata)

    async def connect(self) -> None:
        """There is nothing to wait for."""

    async def close(self) -> None:
        """There is nothing to close."""


class ControllerEndpoints:
    """The controllers that a service knows, and the one that it currently talks to.

    The service's watch, client and heartbeats share it, so that all move to another controller
    when one of them learns of it. Used on one loop.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        inner: Inner | None = None,
        connect: Callable[[str], Endpoint] | None = None,
    ) -> None:
        """`addresses` are host:port; at least one. `inner`: what controllers are shown and show."""
        assert addresses
        self.inner = inner or Inner()
        self._addresses = list(dict.fromkeys(addresses))
        self._connect = connect or (lambda address: GrpcEndpoint(address, self.inner))
        self._endpoints: dict[str, Endpoint] = {}
        self._generation = self.inner.generation
        self._former: list[Endpoint] = []
        self._tasks = TaskOwner(_tell_loop)
        self._present = self._addresses[0]
        self._listeners: list[Callable[[], None]] = []

    @staticmethod
    def in_process(controller: object, metadata: object) -> "ControllerEndpoints":
        """The controller of this process, by its servicers."""
        endpoint = InProcessEndpoint(controller, metadata)
        return ControllerEndpoints([endpoint.address], connect=lambda _: endpoint)

    @property
    def addresses(self) -> tuple[str, ...]:
        """All known addresses."""
        return tuple(self._addresses)

    @property
    def present(self) -> str:
        """The address that calls go to."""
        return self._present

    def current(self) -> Endpoint:
        """The controller that calls go to; connects lazily, and anew when certificates change."""
        if self.inner.generation != self._generation:
            self._renew()
        endpoint = self._endpoints.get(self._present)
        if endpoint is None:
            endpoint = self._connect(self._present)
            self._endpoints[self._present] = endpoint
        return endpoint

    def on_change(self, listener: Callable[[], None]) -> None:
        """Calls `listener()` on the loop whenever `present` becomes another address."""
        self._listeners.append(listener)

    def prefer(self, address: str) -> None:
        """Notes the active controller that a controller or a part of the service has named."""
        if not address or address == self._present:
            return
        if address not in self._addresses:
            if len(self._addresses) >= HINTED_ADDRESSES_MAX:
                return
            self._addresses.append(address)
        self._move(address)

    def rotate(self, failed: str) -> None:
        """Moves to the next address, unless `failed` is no longer the current one."""
        if failed != self._present or len(self._addresses) == 1:
            return
        after = (self._addresses.index(failed) + 1) % len(self._addresses)
        self._move(self._addresses[after])

    def leave(self, address: str, active: str) -> None:
        """Leaves the controller at `address`, which refused; `active` is the one it named, or "".

        A controller that names itself has been elected and begins when members reach it, so it is
        not left: the watch and the heartbeats would leave it, too.
        """
        if active:
            self.prefer(active)
        else:
            self.rotate(address)

    async def close(self) -> None:
        """Closes all connections."""
        endpoints, self._endpoints = self._endpoints, {}
        former, self._former = self._former, []
        for endpoint in (*endpoints.values(), *former):
            await endpoint.close()
        await self._tasks.close(timeout_s=CLOSE_TIMEOUT_S)

    def _renew(self) -> None:
        self._generation = self.inner.generation
        self._former += self._endpoints.values()
        self._endpoints = {}
        while len(self._former) > FORMER_MAX:
            self._tasks.start(self._former.pop(0).close(), name="close a former connection")

    def _move(self, address: str) -> None:
        self._present = address
        for listener in self._listeners:
            listener()


def _tell_loop(name: str, error: BaseException) -> None:
    asyncio.get_running_loop().call_exception_handler(
        {"message": f"{name} failed", "exception": error}
    )
