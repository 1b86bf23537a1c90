"""Calls to the controller for commands: one event loop, one set of connections."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Self, TypeVar

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from highwater.embed.clients.kafka_client import parse_address
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.metadata.watch import ClusterWatch
from highwater.model.cluster import ClusterImage
from highwater.model.errors import UnreachableError, UsageError
from highwater.rpc.grpcio_guard import ProvingChannel, client_credentials
from highwater.rpc.inner import Inner
from highwater.runtime.grpc_channel import open_channel
from highwater.runtime.inner_settings import InnerSettings

_T = TypeVar("_T")

INTRODUCE_S: Final = 3.0
"""Less than an attempt to connect may take: a controller that hangs is not one that refuses."""
HOW_SECRET: Final = "--secret-file, HIGHWATER_SECRET_FILE or the cluster's --data-dir name it"  # noqa: S105 - words.
HOW_TLS: Final = "--tls, HIGHWATER_TLS or the cluster's --data-dir name them"


class ControllerAt(str):
    """host:port of a controller, with the files that show it who asks: of `InnerSettings`, by name.

    A string, as whoever only calls the controller needs to know no more.
    """

    __slots__ = ("files",)

    files: Mapping[str, str]

    def __new__(cls, address: str, files: Mapping[str, str]) -> Self:
        """Keep both."""
        made = super().__new__(cls, address)
        made.files = files
        return made


def converse(address: str, work: Callable[[ControllerEndpoints], Awaitable[_T]]) -> _T:
    """Runs `work` and returns its result.

    A plain string is a controller that asks for nothing. Raises UsageError for an invalid address,
    and if the controller does not believe who asks.
    """
    parse_address(address)
    files = address.files if isinstance(address, ControllerAt) else {}
    inner = Inner(InnerSettings(**files))  # type: ignore[arg-type]  # pydantic reads paths.

    async def within() -> _T:
        await introduce(address, inner)
        endpoints = ControllerEndpoints([address], inner=inner)
        try:
            return await work(endpoints)
        finally:
            await endpoints.close()

    return asyncio.run(within())


async def introduce(address: str, inner: Inner) -> None:
    """Finds out whether the controller serves us, because the watch would only try again.

    Raises UsageError if it does not, and returns if that cannot be known.
    """
    channel = open_channel(address, credentials=client_credentials(inner.client_tls))
    stub = health_pb2_grpc.HealthStub(ProvingChannel(channel, lambda: inner.proof))
    try:
        await stub.Check(health_pb2.HealthCheckRequest(), timeout=INTRODUCE_S)
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            raise UsageError(
                f"the controller on {address} refuses: {error.details()}; {HOW_SECRET}"
            ) from None
        if error.code() is grpc.StatusCode.UNAVAILABLE and await _accepts(address):
            certificates = "these certificates" if inner.client_tls else "connections without any"
            raise UsageError(
                f"the controller on {address} does not take {certificates}, or needs none "
                f"({error.details()}); {HOW_TLS}"
            ) from None
    finally:
        await channel.close(None)


async def _accepts(address: str) -> bool:
    """Whether somebody listens there, whatever he then says."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(INTRODUCE_S):
            _, writer = await asyncio.open_connection(*parse_address(address))
        writer.close()
        return True
    return False


async def read_image(endpoints: ControllerEndpoints, timeout_s: float) -> ClusterImage:
    """Returns the controller's current image. Raises UnreachableError."""
    watch = ClusterWatch(endpoints)
    watch.start()
    try:
        return await watch.wait_for_revision(1, timeout_s)
    except TimeoutError:
        raise UnreachableError(
            f"no answer from the controller on {', '.join(endpoints.addresses)}"
        ) from None
    finally:
        await watch.stop()
